"""Redis that dies or stalls under the work: a reset is a reset, a pause is only a pause."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest

from app.conversion.model import Stage
from tests.harness.faults.deployment import FaultDeployment, Job
from tests.harness.faults.invariants import assert_forgotten, assert_recovered
from tests.harness.faults.supervised_deployment import SupervisedDeployment
from tests.harness.faults.viewers import Viewers
from tests.harness.until import until

pytestmark = pytest.mark.slow
STALL_S = 20
exhaustive = pytest.mark.exhaustive


# --- killed, and back with nothing ------------------------------------------------------------------
def _in_mid_stage(deployment: SupervisedDeployment) -> list[Job]:
    job = deployment.submit(bie="hang")
    until(job.hangs, what="the stage hangs")
    return [job]


def _with_jobs_queued(deployment: SupervisedDeployment) -> list[Job]:
    jobs = [deployment.submit(onnx="wait:gate"), *(deployment.submit() for _ in range(3))]
    until(lambda: jobs[0].starts()["onnx"], what="the first runs")
    assert deployment.container.broker.waiting("onnx") == 3
    return jobs


def _with_done_messages_waiting(deployment: SupervisedDeployment) -> list[Job]:
    deployment.hold("before-advance")
    jobs = [deployment.submit() for _ in range(4)]
    until(lambda: deployment.container.broker.client.hlen("queue:done.msgs") == 4, what="every job has reported")
    return jobs


AT_ONCE, AFTER_A_WHILE = 0, 3


@pytest.mark.parametrize(
    ("prepare", "down_s"),
    [
        pytest.param(_in_mid_stage, AT_ONCE, id="in mid stage, at once"),
        pytest.param(_in_mid_stage, AFTER_A_WHILE, id="in mid stage, after a while", marks=exhaustive),
        pytest.param(_with_jobs_queued, AT_ONCE, id="with jobs queued, at once", marks=exhaustive),
        pytest.param(_with_jobs_queued, AFTER_A_WHILE, id="with jobs queued, after a while", marks=exhaustive),
        pytest.param(_with_done_messages_waiting, AT_ONCE, id="with done messages waiting, at once", marks=exhaustive),
        pytest.param(_with_done_messages_waiting, AFTER_A_WHILE, id="with done messages waiting, after a while"),
    ],
)
def test_redis_comes_back_empty(
    supervised: SupervisedDeployment, prepare: Callable[[SupervisedDeployment], list[Job]], down_s: float
) -> None:
    """The jobs are gone and the API says so, nothing of them goes on, and no worker had to be restarted."""
    jobs = prepare(supervised)
    workers = {part: supervised.pid(part) for part in ("onnx-0", "bie-0", "nef-0", "scheduler")}
    supervised.valkey.kill()
    time.sleep(down_s)
    supervised.valkey.start()
    for job in jobs:
        assert_forgotten(supervised, job)
    for path in supervised.holds.iterdir():
        path.unlink()
    assert_recovered(supervised, [], forgotten=jobs)
    assert {part: supervised.pid(part) for part in workers} == workers
    for job in jobs:
        assert_forgotten(supervised, job)  # nobody who was cut off has written a part of it back


# --- stalled ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "is_long",
    [pytest.param(False, id="shorter than a command's patience", marks=exhaustive), pytest.param(True, id="longer")],
)
def test_a_stage_that_ends_while_redis_stalls_is_counted_once(deployment: FaultDeployment, is_long: bool) -> None:
    """A command gives up after two seconds (in these tests); the worker never does."""
    worker = deployment.worker("bie")
    job = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(job), what="the stage runs")
    deployment.valkey.process.send_signal(signal.SIGSTOP)
    job.release()
    if is_long:
        until(
            lambda: "Consumer encountered a connection error" in deployment.log(worker), what="a command was given up"
        )
    else:
        time.sleep(1)
    deployment.valkey.process.send_signal(signal.SIGCONT)
    assert_recovered(deployment, [job])
    worker.kill()  # whoever comes next must not find it undone
    shown = assert_recovered(deployment, [job])
    assert shown[job.job_id]["status"] == "COMPLETED"


@dataclass(frozen=True)
class Line:
    deployment: SupervisedDeployment
    stall_s: float


@pytest.fixture(
    params=["patience cut", pytest.param("patience as in production", marks=exhaustive)], ids=lambda word: word
)
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """A deployment, and for how long its Redis will stall: for more than three times the patience of a command."""
    if request.param == "patience cut":
        yield Line(request.getfixturevalue("supervised"), STALL_S / 3)
        return
    with SupervisedDeployment(tmp_path_factory.mktemp("patient"), is_patient=True, worker_ttl_s="20") as made:
        yield Line(made, STALL_S)
        made.valkey.process.send_signal(signal.SIGCONT)


def test_a_busy_line_outlasts_a_redis_that_stalls_for_twenty_seconds(line: Line) -> None:
    deployment = line.deployment
    noticed = len(deployment.notices)
    ends_meanwhile = deployment.submit(nef="wait:gate")
    until(lambda: deployment.runs(ends_meanwhile, Stage.NEF), what="the last stage is busy")
    ends_after = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(ends_after), what="the one before is, too")
    queued = deployment.submit()
    until(lambda: deployment.container.broker.position("bie", queued.job_id) == 0, what="a job waits for it")
    deployment.hold("before-advance")
    reported = deployment.submit()
    until(lambda: deployment.reached("before-advance"), what="the scheduler has a message in hand")
    in_onnx = deployment.submit(onnx="wait:gate")
    until(lambda: deployment.runs(in_onnx, Stage.ONNX), what="the first stage is busy")
    behind = deployment.submit()
    with Viewers(deployment.url, ends_after.job_id, 3) as viewers:
        until(lambda: viewers.all_see(status="BIE"), what="people watch")
        _stall(line, [ends_meanwhile, in_onnx])
        ends_after.release()
        shown = assert_recovered(deployment, [ends_meanwhile, ends_after, queued, reported, in_onnx, behind])
        until(viewers.are_gone, what="all see the end")
        assert viewers.all_see(status="COMPLETED")
        assert [viewer.connections for viewer in viewers.crowd] == [1, 1, 1]
    notices = deployment.notices[noticed:]
    assert [(answer["error"], notices) for answer in shown.values()] == [(None, [])] * len(shown)
    assert notices == []  # nobody had to be restarted


def _stall(line: Line, finish: list[Job]) -> None:
    """While it lasts some jobs' stages end, the scheduler goes on, and whoever asks is told what is wrong."""
    deployment = line.deployment
    ends_at = time.monotonic() + line.stall_s
    deployment.valkey.process.send_signal(signal.SIGSTOP)
    deployment.release("before-advance")
    for job in finish:
        job.release()
    answer = httpx.get(f"{deployment.url}/jobs/{finish[0].job_id}")
    assert (answer.status_code, answer.json()["error"]["can_retry"]) == (503, True)
    assert "Redis" in answer.json()["error"]["message"]
    time.sleep(max(0.0, ends_at - time.monotonic()))
    deployment.valkey.process.send_signal(signal.SIGCONT)
