"""From a task that has succeeded to a model that runs: through the real workers, with links both ways. Without Ray."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.bootstrap.container import Container, assemble
from app.homes.service import Homes
from app.inference.runtimes.sessions import HostModel
from app.kit.clock import now
from tests.harness.api import Api, has_ended
from tests.harness.command_line import run
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.paths import REPOSITORY
from tests.harness.training.finished_tasks import finished_task, folder_of
from tests.harness.until import PATIENCE_S, until
from tests.harness.users import OURS, Person, person

SAMPLE = REPOSITORY / "ops/samples/digits"
PLAIN = "workload: script\ncode_path: /private/common/code/digits\n"
SPEC = PLAIN + "convert:\n  images: reference.zip\n"
NUMBERS = itertools.count()
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployment(shared: Deployment) -> Iterator[Deployment]:
    """A service that trains, only that no Ray answers, with a worker that converts what tasks leave."""
    queues = ("training_results", "periodic")
    worker = shared.start([DRAMATIQ, "actors", "--queues", *queues, "--processes", "1", "--threads", "2"])
    yield shared
    worker.terminate()
    worker.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def user(deployment: Deployment) -> Person:
    return person(deployment, "gina")


@pytest.fixture(scope="module")
def container(deployment: Deployment) -> Iterator[Container]:
    made = assemble(deployment.settings())
    yield made
    made.close()


@pytest.fixture
def api(user: Person) -> Iterator[Api]:
    with user.api() as client:
        yield client


def left_by_a_task(container: Container, spec: str = SPEC, *, without: str = "") -> str:
    """The id of a task of Gina that has just left the sample's model and pictures."""
    homes: Homes = container.homes
    homes.files.create("gina")
    task_id = f"mvp2-gina-script-20261120-204302-{next(NUMBERS):04}"
    began = now() - timedelta(minutes=1)
    finished_task(container.database, homes, spec, user="gina", task_id=task_id, began=began)
    for name, source in (("model.onnx", "digits.onnx"), ("reference.zip", "reference.zip")):
        if name != without:
            (folder_of(homes, "gina", task_id) / name).write_bytes((SAMPLE / source).read_bytes())
    return task_id


def tell(container: Container, task_id: str) -> None:
    """As the scheduler does when a task has succeeded."""
    container.broker.send("training_results", "convert_results", task_id=task_id)


def task(api: Api, task_id: str) -> dict[str, Any]:
    answer = api.http.get(f"/api/v2/tasks/{task_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def conversion(api: Api, task_id: str) -> dict[str, Any]:
    """Its one conversion, once it has become a job or a problem."""
    seen = until(
        lambda: task(api, task_id)["conversions"], lambda rows: rows and (rows[0]["job_id"] or rows[0]["problem"])
    )
    assert len(seen) == 1
    return dict(seen[0])


def test_what_a_task_left_becomes_a_model_that_runs(container: Container, api: Api, tmp_path: Path) -> None:
    task_id = left_by_a_task(container)
    for _ in range(3):  # a message may come twice
        tell(container, task_id)
    made = conversion(api, task_id)
    job = api.wait(made["job_id"], has_ended)
    assert (job["status"], job["origin"]) == ("COMPLETED", f"task:{task_id}"), job["error"]
    origins = [entry["origin"] for entry in api.http.get("/jobs", params={"limit": 200}).json()["jobs"]]
    assert origins.count(f"task:{task_id}") == 1
    (tmp_path / "out.nef").write_bytes(api.http.get(f"/jobs/{made['job_id']}/artifacts/out.nef").content)
    model, test = HostModel(tmp_path / "out.nef"), np.load(SAMPLE / "test.npz")
    guesses = [int(model.run({"input": picture[None]})["logits"].argmax()) for picture in test["x"]]
    assert (np.array(guesses) == test["y"]).mean() > 0.95


def test_task_and_job_lead_to_each_other(user: Person, container: Container, api: Api) -> None:
    task_id = left_by_a_task(container)
    tell(container, task_id)
    made = conversion(api, task_id)
    assert (made["job"], made["page"]) == (f"/jobs/{made['job_id']}", f"/ui/jobs/{made['job_id']}")
    with user.browser() as browser:
        page = browser.get(made["page"]).text
    assert f'href="/ui/tasks/{task_id}"' in page and "Trained by" in page
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MODELMILL_")}
    shown = run("jobs", "show", made["job_id"], "--url", user.url, environment={**kept, "MODELMILL_TOKEN": user.token})
    assert f"origin   task:{task_id}\n" in shown.stdout
    events = api.http.get(f"/api/v2/tasks/{task_id}/events").json()["events"]
    told = [event["payload"] for event in events if event["event_type"] == "CONVERSION"]
    assert told == [{"by": "spec", "artifact": "model.onnx", "job_id": made["job_id"]}]


def test_the_pulse_finds_a_task_of_whose_end_nobody_was_told(container: Container, api: Api) -> None:
    task_id = left_by_a_task(container)
    container.broker.send("periodic", "look_for_results")
    assert conversion(api, task_id)["job_id"]


@pytest.mark.parametrize(
    ("spec", "without", "words"),
    [
        (SPEC, "model.onnx", "There is no jobs/"),
        (SPEC, "reference.zip", "/reference.zip here"),
        (SPEC + "  options: {quantization: {bogus: 1}}\n", "", "options.quantization.bogus"),
        (PLAIN + "convert: {images: /private/users/another/pictures.zip}\n", "", "images: it must lie under"),
    ],
)
def test_what_cannot_be_converted_is_said_and_the_task_stays_as_it_ended(
    container: Container, api: Api, spec: str, without: str, words: str
) -> None:
    task_id = left_by_a_task(container, spec, without=without)
    tell(container, task_id)
    made = conversion(api, task_id)
    assert words in made["problem"] and made["job_id"] == ""
    assert task(api, task_id)["state"] == "SUCCEEDED"


def test_one_click_converts_as_well(container: Container, api: Api) -> None:
    task_id = left_by_a_task(container, PLAIN)
    assert [artifact["path"] for artifact in task(api, task_id)["artifacts"]] == ["model.onnx"]
    body = {"artifact": "model.onnx", "images": "reference.zip", "name": "by hand"}
    answer = api.http.post(f"/api/v2/tasks/{task_id}/convert", json=body)
    assert answer.status_code == 201, answer.text
    job = api.wait(answer.json()["job_id"], has_ended)
    assert (job["status"], job["name"], job["origin"]) == ("COMPLETED", "by hand", f"task:{task_id}")
    refused = api.http.post(f"/api/v2/tasks/{task_id}/convert", json={**body, "artifact": "other.onnx"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "FILE_NOT_FOUND")
    assert len(task(api, task_id)["conversions"]) == 1


def test_a_job_submitted_again_after_a_reset_knows_the_task_still(user: Person, container: Container, api: Api) -> None:
    task_id = left_by_a_task(container)
    tell(container, task_id)
    job_id = api.wait(conversion(api, task_id)["job_id"], has_ended)["job_id"]
    container.store.delete(job_id)  # as when Redis was started anew
    with user.browser() as browser:
        again = browser.post(f"/ui/jobs/{job_id}/resubmit", headers=OURS)
    assert again.status_code == 303, again.text
    new_id = again.headers["location"].removeprefix("/ui/jobs/").partition("?")[0]
    assert new_id != job_id
    assert api.job(new_id)["origin"] == f"task:{task_id}"
