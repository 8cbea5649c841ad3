"""Models times options: each a job, as there is room, and one table of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.settings import Settings
from tests.harness.api import pngs, small_model
from tests.harness.conversion_jobs import finished_job
from tests.harness.users import OURS, Within, within

VARIANTS = [
    {"name": "plain", "options": {}},
    {"name": "entropy", "options": {"quantization": {"method": "entropy"}}},
]


@pytest.fixture
def web(settings: Settings) -> Iterator[Within]:
    with within(settings.model_copy(update={"max_active_jobs_per_user": 2})) as client:
        yield client


@pytest.fixture
def container(web: Within) -> Container:
    return web.app.state.container  # type: ignore[no-any-return]


@pytest.fixture
def models(web: Within) -> list[dict[str, Any]]:
    files = [("model", ("model.onnx", small_model())), *(("images", file) for file in pngs(2))]
    keys = web.post("/uploads", files=files).json()
    inputs = {"model_key": keys["model_key"], "quant_key": keys["quant_key"]}
    shared = {"preprocess": {"mean": [1.0, 2.0, 3.0]}}
    gone = "00000000-0000-4000-8000-000000000000"
    lost = {"model_key": inputs["model_key"].replace(keys["upload_id"], gone), "quant_key": inputs["quant_key"]}
    return [{"name": "small", **inputs, "options": shared}, {"name": "lost", **lost}]


def states(web: Within, sweep_id: str) -> list[str]:
    return [row["status"] for row in web.get(f"/sweeps/{sweep_id}").json()["rows"]]


def test_every_model_meets_every_variant_and_what_is_refused_says_why(
    web: Within, container: Container, models: list[dict[str, Any]]
) -> None:
    made = web.post("/sweeps", json={"name": "nightly", "models": models, "options": VARIANTS})
    assert made.status_code == 201, made.text
    sweep_id = made.json()["sweep_id"]
    assert states(web, sweep_id) == ["PENDING"] * 4
    assert container.sweeps.submit_pending() == 2
    rows = web.get(f"/sweeps/{sweep_id}").json()["rows"]
    assert [row["status"] for row in rows] == ["ONNX", "ONNX", "PENDING", "PENDING"], "the user's room is full"
    second = web.get(f"/jobs/{rows[1]['job_id']}").json()
    assert second["options"]["quantization"]["method"] == "entropy"
    assert second["options"]["preprocess"]["mean"] == [1.0, 2.0, 3.0]
    assert (second["sweep_id"], second["origin"]) == (sweep_id, "")
    remembered = container.conversion.submissions.remembered(second["job_id"], second["owner"])
    assert remembered.sweep_id == "", "a job of the same files is none of the sweep"
    web.post(f"/jobs/{rows[0]['job_id']}/cancel")
    container.sweeps.submit_pending()
    rows = web.get(f"/sweeps/{sweep_id}").json()["rows"]
    assert [row["status"] for row in rows] == ["FAILED", "ONNX", "REFUSED", "REFUSED"]
    assert "is not the key" in rows[2]["problem"]


def test_why_a_job_is_refused_and_what_to_do_are_two_sentences(
    web: Within, container: Container, models: list[dict[str, Any]]
) -> None:
    options = [{"name": "x", "options": {"input_shapes": {"nope": [1, 2]}}}]
    sweep_id = web.post("/sweeps", json={"models": models[:1], "options": options}).json()["sweep_id"]
    container.sweeps.submit_pending()
    (row,) = web.get(f"/sweeps/{sweep_id}").json()["rows"]
    assert row["status"] == "REFUSED"
    assert row["problem"].endswith("]. Use the names of the model's inputs.")
    assert (row["error"]["code"], row["error"]["hint"]) == ("BAD_INPUT", "Use the names of the model's inputs.")


def test_the_page_says_in_the_language_of_its_reader_why_a_job_was_refused_or_failed(
    web: Within, container: Container, models: list[dict[str, Any]]
) -> None:
    options = [{"name": "x", "options": {"input_shapes": {"nope": [1, 2]}}}, {"name": "y"}]
    sweep_id = web.post("/sweeps", json={"models": models[:1], "options": options}).json()["sweep_id"]
    container.sweeps.submit_pending()
    web.post(f"/jobs/{web.get(f'/sweeps/{sweep_id}').json()['rows'][1]['job_id']}/cancel")
    page = web.get(f"/ui/sweeps/{sweep_id}", headers={"Accept-Language": "zh-Hant"}).text
    refused, failed = (part.partition("</tr>")[0] for part in page.split('<tr id="row-')[1:])
    assert "輸入有誤。" in refused and "請使用模型輸入的名稱。" in refused, refused
    assert "已取消。" in failed, failed


def test_a_job_of_a_sweep_says_where_its_model_was_fetched_from(
    web: Within, container: Container, models: list[dict[str, Any]]
) -> None:
    key = models[0]["model_key"]
    own_id = key.split("/")[1]
    owner = container.conversion.uploads.owner(own_id)
    fetched = key.replace(own_id, container.conversion.uploads.begin(owner, origin="hf://org/detector"))
    container.objects.copy(key, fetched)
    entry = {**models[0], "model_key": fetched}
    sweep_id = web.post("/sweeps", json={"models": [entry], "options": VARIANTS[:1]}).json()["sweep_id"]
    assert container.sweeps.submit_pending() == 1
    job = web.get(f"/jobs/{web.get(f'/sweeps/{sweep_id}').json()['rows'][0]['job_id']}").json()
    assert (job["origin"], job["sweep_id"]) == ("hf://org/detector", sweep_id)


def test_results_outlive_the_jobs_and_are_a_csv(
    web: Within, container: Container, models: list[dict[str, Any]]
) -> None:
    sweep_id = web.post("/sweeps", json={"models": models[:1], "options": VARIANTS}).json()["sweep_id"]
    container.sweeps.submit_pending()
    first = web.get(f"/sweeps/{sweep_id}").json()["rows"][0]["job_id"]
    web.post(f"/jobs/{first}/cancel")
    record = container.store.get(first)
    assert record is not None
    container.sweeps.note_end(record)
    container.redis.flushall()
    assert states(web, sweep_id) == ["FAILED", "GONE"]
    answer = web.get(f"/sweeps/{sweep_id}/table.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["model_name"], row["variant"], row["status"]) for row in rows] == [
        ("small", "plain", "FAILED"),
        ("small", "entropy", "GONE"),
    ]


def test_a_cancelled_sweep_ends_its_jobs_and_submits_no_more(
    web: Within, container: Container, models: list[dict[str, Any]]
) -> None:
    sweep_id = web.post("/sweeps", json={"models": models, "options": VARIANTS}).json()["sweep_id"]
    container.sweeps.submit_pending()
    answer = web.post(f"/sweeps/{sweep_id}/cancel").json()
    assert [row["status"] for row in answer["rows"]] == ["FAILED", "FAILED", "CANCELLED", "CANCELLED"]
    assert answer["has_ended"]
    assert container.sweeps.submit_pending() == 0
    assert web.request("DELETE", f"/sweeps/{sweep_id}").status_code == 204
    for refused in (web.get(f"/sweeps/{sweep_id}"), web.request("DELETE", f"/sweeps/{sweep_id}")):
        assert refused.status_code == 404 and sweep_id in refused.json()["error"]["message"]


def test_a_second_try_after_a_crash_makes_no_second_job(
    web: Within, container: Container, models: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    web.post("/sweeps", json={"models": models[:1], "options": VARIANTS[:1]})
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(container.sweeps, "_note", crash)
        container.sweeps.submit_pending()
    assert container.sweeps.submit_pending() == 1
    assert len(web.get("/jobs").json()["jobs"]) == 1


def crash(*_: object) -> bool:
    raise RuntimeError("the process ends here")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([{"name": f"v{number}", "options": {}} for number in range(51)], "BAD_INPUT"),
        ([{"name": "x", "options": {"quantization": {"method": "magic"}}}], "BAD_INPUT"),
        ([{"name": "x", "options": {"toolchain": "kneron", "platform": "720"}}], "BAD_INPUT"),
        ([], "BAD_INPUT"),
    ],
)
def test_what_is_no_sweep_is_refused_whole(
    web: Within, models: list[dict[str, Any]], options: list[dict[str, Any]], code: str
) -> None:
    answer = web.post("/sweeps", json={"models": models, "options": [*VARIANTS[:1], *options] if options else []})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, code)
    assert web.get("/sweeps").json()["sweeps"] == []


def test_different_uploads_of_one_name_are_not_one_model(web: Within, models: list[dict[str, Any]]) -> None:
    other = {**models[1], "name": "small"}
    made = web.post(
        "/sweeps", json={"models": [models[0], other, models[0]], "options": [{"name": "x", "options": {}}]}
    )
    assert [row["model_name"] for row in made.json()["rows"]] == ["small", "small (2)", "small"]


def test_more_jobs_than_a_sweep_may_have_are_refused(web: Within, models: list[dict[str, Any]]) -> None:
    many = [{**models[0], "name": f"m{number}"} for number in range(5)]
    variants = [{"name": f"v{number}", "options": {}} for number in range(41)]
    answer = web.post("/sweeps", json={"models": many, "options": variants})
    assert answer.json()["error"]["code"] == "SWEEP_TOO_LARGE"


def test_the_pages_start_a_sweep_over_a_job_and_show_its_table(web: Within, container: Container) -> None:
    job = finished_job(container, "local", "yolo")
    assert "No sweeps yet" in web.get("/ui/sweeps").text
    assert "There is nothing to compare yet" in web.get("/ui/jobs/compare").text, "one job cannot be compared"
    assert "yolo" in web.get(f"/ui/sweeps/new?job={job.job_id}").text
    nothing = web.post("/ui/sweeps/new", data={"name": "x"}, headers=OURS)
    assert nothing.status_code == 422
    assert "Tick one of each" in nothing.text
    fields = {"name": "ranges", "job": job.job_id, "method": ["minmax", "entropy"], "scale": "tensor"}
    answer = web.post("/ui/sweeps/new", data=fields, headers=OURS)
    assert answer.status_code == 303, answer.text
    page = web.get(answer.headers["location"]).text
    assert "entropy, per tensor" in page and "0 of 2 jobs have ended." in page
    assert "ranges" in web.get("/ui/sweeps").text


def test_jobs_that_only_the_archive_has_are_a_table_and_the_base_of_a_sweep(web: Within, container: Container) -> None:
    job = finished_job(container, "local", "yolo")
    container.archive.descriptions.write(job)
    container.store.delete(job.job_id)
    table = f"/ui/sweeps/jobs?job={job.job_id}"
    assert "yolo" in web.get(table).text
    assert job.job_id in web.get(table.replace("jobs?", "jobs.csv?")).text
    assert "yolo" in web.get(f"/ui/sweeps/new?job={job.job_id}").text
    fields = {"name": "ranges", "job": job.job_id, "method": ["minmax"], "scale": "tensor"}
    answer = web.post("/ui/sweeps/new", data=fields, headers=OURS)
    assert answer.status_code == 303, answer.text
    assert "minmax, per tensor" in web.get(answer.headers["location"]).text


def test_ticked_jobs_are_a_table_and_go_into_a_sweep_together(web: Within, container: Container) -> None:
    ids = [finished_job(container, "local", name).job_id for name in ("yolo", "face")]
    chosen = web.post("/ui/jobs/selected", data={"id": ids, "action": "table"}, headers=OURS)
    page = web.get(chosen.headers["location"]).text
    assert all(f"/ui/jobs/{job_id}" in page for job_id in ids)
    lines = web.get(chosen.headers["location"].replace("jobs?", "jobs.csv?")).text.splitlines()
    assert len(lines) == 3 and ids[0] in lines[1]
    new = web.get(f"/ui/sweeps/new?job={ids[0]}&job={ids[1]}").text
    assert new.count(" checked") == 2 + 2  # and one setting of each kind
    assert "None of these jobs is here" in web.get("/ui/sweeps/jobs?job=no-such-job").text
