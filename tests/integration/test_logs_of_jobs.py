"""The logs of all processes of a service: every line that concerns a job names it, and none has a secret in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.operations import figures, logged
from tests.harness.until import PATIENCE_S, until

pytestmark = pytest.mark.slow
SECRETS = {
    "secret_key": "the-key-that-signs-links",
    "s3_access_key": "the-access-key-of-the-store",
    "s3_secret_key": "the-secret-key-of-the-store",
    "metrics_token": "the-token-of-the-figures",
}
PASSWORD = "the-password-of-redis"
ELSEWHERE = ("dramatiq.MainProcess",)
"""Dramatiq's master process loads none of our code."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, dict[str, dict[str, Any]]]]:
    """A service with secrets, talkative, that converted a job, failed at one, and lost Redis."""
    settings = {**SECRETS, "log_level": "debug", "log_format": "json"}
    with Deployment(tmp_path_factory.mktemp("ran"), **settings) as deployment:
        deployment.env["MODELMILL_REDIS_URL"] = f"redis://default:{PASSWORD}@127.0.0.1:{deployment.redis_port}/0"
        deployment.whole()
        with Api(deployment.url) as api:
            good = api.convert(small_model(), pngs(3))
            cancelled = api.start(small_model(), pngs(3))
            api.http.post(f"/jobs/{cancelled}/cancel", headers={"X-Request-ID": "asked-by-me"})
            link = api.http.post("/uploads/presign", json={})
            for url in _links(link.json()):
                api.http.put(url, content=small_model())
            known = _known(deployment, _figures(deployment))
            deployment.valkey.kill()
            until(lambda: [line for line in logged(deployment) if "sign of life" in line["message"]])
            api.http.get("/jobs")
            deployment.valkey.start()
            yield deployment, {"good": good, "cancelled": {"job_id": cancelled}, "known": known}


def _figures(deployment: Deployment) -> Any:
    with Api(deployment.url) as scraper:
        scraper.http.headers["Authorization"] = f"Bearer {SECRETS['metrics_token']}"
        return figures(scraper)


def _links(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for value in part.values():
            yield from _links(value)
    elif isinstance(part, str) and part.startswith("http"):
        yield part


def _known(deployment: Deployment, seen: Any) -> dict[str, Any]:
    """All that Redis keeps, and the figures."""
    records = {key.decode(): str(deployment.redis.dump(key)) for key in deployment.redis.scan_iter()}
    return {"records": records, "figures": [str(family.samples) for family in seen.families.values()]}


def test_every_line_of_our_processes_is_json(ran: tuple[Deployment, Any]) -> None:
    deployment, _ = ran
    for path in deployment.folder.glob("*.log"):
        for line in path.read_text().splitlines():
            if line and not any(f"[{name}]" in line for name in ELSEWHERE):
                assert json.loads(line)["message"]


def test_a_line_that_concerns_a_job_carries_its_id(ran: tuple[Deployment, Any]) -> None:
    deployment, jobs = ran
    for name in ("good", "cancelled"):
        job_id = jobs[name]["job_id"]
        lines = [line for line in logged(deployment) if job_id in line["message"] and line["level"] != "debug"]
        assert lines
        assert {line.get("job_id") for line in lines} == {job_id}


def test_the_lines_of_a_job_tell_its_way_and_who_went_it(ran: tuple[Deployment, Any]) -> None:
    deployment, jobs = ran
    job = jobs["good"]
    lines = [line for line in logged(deployment) if line.get("job_id") == job["job_id"] and line["level"] == "info"]
    messages = sorted(line["message"].replace(job["job_id"], "X").partition(" after ")[0] for line in lines)
    assert messages == [
        "Job X is COMPLETED.",
        "Job X is submitted.",
        "Stage bie of job X ended",
        "Stage nef of job X ended",
        "Stage onnx of job X ended",
    ]
    for step in ("onnx", "bie", "nef"):
        own = [line for line in lines if line["message"].startswith(f"Stage {step} ")]
        assert [(line["stage"], line["worker"]) for line in own] == [(step, job["stages"][step]["worker"])]
    assert [line["logger"] for line in lines if "request_id" in line] == ["app.conversion.service.submissions"]


def test_a_request_is_found_by_the_id_that_the_client_gave_it(ran: tuple[Deployment, Any]) -> None:
    deployment, jobs = ran
    lines = [line for line in logged(deployment) if line.get("request_id") == "asked-by-me"]
    assert {line.get("job_id") for line in lines} == {jobs["cancelled"]["job_id"]}
    assert [line["status"] for line in lines if "status" in line] == [200]


def test_an_id_that_could_forge_a_line_is_replaced_and_every_answer_has_one(service: Deployment, api: Api) -> None:
    given = api.http.get("/healthz", headers={"X-Request-ID": "ok-1"}).headers["X-Request-ID"]
    made = api.http.get("/healthz", headers={"X-Request-ID": 'a "b"'}).headers["X-Request-ID"]
    other = api.http.get("/nowhere").headers["X-Request-ID"]
    assert given == "ok-1"
    assert len({made, other}) == 2
    assert made.isalnum()


def test_no_secret_is_in_any_log_record_or_figure(ran: tuple[Deployment, Any]) -> None:
    deployment, jobs = ran
    text = "".join(path.read_text() for path in deployment.folder.glob("*.log"))
    assert "No sign of life" in text  # the outage is in it, and errors like to tell addresses
    for secret in (*SECRETS.values(), PASSWORD, "signature="):
        assert secret not in text
        assert secret not in str(jobs["known"])
    assert "/objects/" in text  # a signed link was used


@pytest.mark.parametrize(
    "command", [("dramatiq", "actors", "--queues", "nef", "--processes", "1"), ("periodiq", "actors")]
)
def test_a_command_that_is_started_logged_writes_no_line_in_another_form(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with Deployment(tmp_path) as deployment:
        process = deployment.start([sys.executable, "-m", "app.cli.logged", *command])
        ready = "ready for action" if command[0] == "dramatiq" else "Starting Periodiq"
        until(lambda: [line for line in logged(deployment) if ready in line["message"]])
        process.terminate()
        process.wait(PATIENCE_S)
        lines = (deployment.folder / "0.log").read_text().splitlines()
        loggers = {json.loads(line)["logger"] for line in lines if line}
        assert loggers & {"dramatiq.MainProcess", "periodiq"}
