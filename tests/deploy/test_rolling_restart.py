"""Replacing processes under load: what is in hand is finished up to the grace, and nothing is lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from app.conversion.model import Stage
from tests.harness.deployment import Process
from tests.harness.faults.deployment import FaultDeployment, Job
from tests.harness.until import PATIENCE_S, until

pytestmark = pytest.mark.slow
ONCE = {"onnx": 1, "bie": 1, "nef": 1}
LONG_S = "120"
VIEWERS = 20


@pytest.fixture(scope="module")
def shared_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultDeployment]:
    with FaultDeployment(tmp_path_factory.mktemp("rolling"), shutdown_grace_s=LONG_S) as made:
        yield made


@pytest.fixture
def deployment(shared_deployment: FaultDeployment) -> Iterator[FaultDeployment]:
    with shared_deployment.for_a_test() as ready:
        yield ready


def in_bie(deployment: FaultDeployment) -> Job:
    job = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(job) and job.starts()["bie"], what="the stage runs")
    return job


def in_hand(deployment: FaultDeployment, job: Job) -> bool:
    return (
        deployment.container.broker.holds("bie", job.job_id)
        and deployment.container.broker.position("bie", job.job_id) is None
    )


def test_a_worker_told_to_end_finishes_the_job_in_hand_and_takes_no_other(deployment: FaultDeployment) -> None:
    worker = deployment.worker("bie")
    job = in_bie(deployment)
    waiting = [deployment.submit() for _ in range(3)]
    until(lambda: deployment.container.broker.waiting("bie") == 3, what="three more wait")
    worker.master.terminate()
    until(lambda: "Taking no more work" in deployment.log(worker), what="it was told")
    job.release()
    assert worker.master.wait(PATIENCE_S) == 0
    assert deployment.ended(job).status == "COMPLETED"
    assert job.starts() == ONCE
    assert not any(in_hand(deployment, other) for other in waiting)
    assert [deployment.container.broker.position("bie", other.job_id) for other in waiting] == [0, 1, 2]
    deployment.worker("bie")
    assert [deployment.ended(other).status for other in waiting] == ["COMPLETED"] * 3
    assert [other.starts() for other in waiting] == [ONCE] * 3


def test_replacing_every_worker_one_by_one_under_a_queue_of_jobs_loses_none(deployment: FaultDeployment) -> None:
    deployment.living(*(deployment.launch("bie") for _ in range(2)))
    jobs, plan = list[Job](), {"onnx": "sleep:0.2", "bie": "sleep:0.8", "nef": "sleep:0.2"}
    for old in list(deployment.running):
        jobs += [deployment.submit(**plan) for _ in range(3)]
        held = deployment.submit(**(plan if old.queue == "done" else {**plan, old.queue: "wait:gate"}))
        if old.queue != "done":
            until(lambda job=held, queue=old.queue: deployment.runs(job, Stage(queue.upper())), what="it is worked on")  # type: ignore[misc]
        deployment.worker(old.queue)
        old.master.terminate()
        held.release()
        assert old.master.wait(PATIENCE_S) == 0
        jobs.append(held)
    assert {deployment.ended(job).status for job in jobs} == {"COMPLETED"}
    assert [job.starts() for job in jobs] == [ONCE] * 20


def web(deployment: FaultDeployment) -> Process:
    command = [sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--port", str(deployment.web_port)]
    process = deployment.start([*command, "--timeout-graceful-shutdown", "5"])
    until(lambda: _is_ready(deployment), what="the web answers")
    return process


def _is_ready(deployment: FaultDeployment) -> bool:
    try:
        return httpx.get(f"{deployment.url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _next_event(lines: Iterator[str]) -> str:
    return next(line.removeprefix("event: ") for line in lines if line.startswith("event: "))


def test_a_web_told_to_end_closes_its_streams_so_that_viewers_come_back_to_the_next_one(
    deployment: FaultDeployment,
) -> None:
    deployment.worker("bie")
    job = in_bie(deployment)
    first = web(deployment)
    events = f"{deployment.url}/jobs/{job.job_id}/events"
    with httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None)) as client, ExitStack() as streams:
        viewers = []
        for _ in range(VIEWERS):
            response = streams.enter_context(client.stream("GET", events))
            viewers.append(response.iter_lines())
        assert [_next_event(lines) for lines in viewers] == ["status"] * VIEWERS
        first.send_signal(signal.SIGTERM)
        rest = [_until_closed(lines) for lines in viewers]
    assert first.wait(PATIENCE_S) == -signal.SIGTERM  # uvicorn ends in order, then by the signal it was sent
    # `done` or `gone` would tell a browser not to come back.
    assert not [line for lines in rest for line in lines if line in {"event: done", "event: gone"}]
    web(deployment)
    with httpx.stream("GET", events, timeout=60) as response:
        lines = response.iter_lines()
        assert _next_event(lines) == "status"
        job.release()
        assert "done" in iter(lambda: _next_event(lines), None)


def _until_closed(lines: Iterator[str]) -> list[str]:
    """A stream that is cut off within a chunked body has come to its end, to a browser too."""
    received: list[str] = []
    with suppress(httpx.RemoteProtocolError, httpx.ReadError):
        received.extend(lines)
    return received
