"""Redis that dies or stalls under the work: a reset is a reset, a pause is only a pause."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from app.conversion.model import Stage
from tests.harness.faults.deployment import FaultDeployment, Job, until
from tests.harness.faults.invariants import assert_forgotten, assert_recovered
from tests.harness.faults.supervised_deployment import SupervisedDeployment
from tests.harness.faults.viewers import Viewers

pytestmark = pytest.mark.slow
STALL_S = 20


# --- killed, and back with nothing ------------------------------------------------------------------
def _in_mid_stage(deployment: SupervisedDeployment) -> list[Job]:
    job = deployment.submit(bie="hang")
    until(job.hangs, "the stage hangs")
    return [job]


def _with_jobs_queued(deployment: SupervisedDeployment) -> list[Job]:
    jobs = [deployment.submit(onnx="wait:gate"), *(deployment.submit() for _ in range(3))]
    until(lambda: jobs[0].starts()["onnx"], "the first runs")
    assert deployment.parts.broker.waiting("onnx") == 3
    return jobs


def _with_done_messages_waiting(deployment: SupervisedDeployment) -> list[Job]:
    deployment.hold("before-advance")
    jobs = [deployment.submit() for _ in range(4)]
    until(lambda: deployment.parts.broker.client.hlen("queue:done.msgs") == 4, "every job has reported")
    return jobs


@pytest.mark.parametrize("down_s", [0, 3], ids=["at once", "after a while"])
@pytest.mark.parametrize("prepare", [_in_mid_stage, _with_jobs_queued, _with_done_messages_waiting])
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
@pytest.mark.parametrize("is_long", [False, True], ids=["shorter than a command's patience", "longer"])
def test_a_stage_that_ends_while_redis_stalls_is_counted_once(deployment: FaultDeployment, is_long: bool) -> None:
    """A command gives up after two seconds (in these tests); the worker never does."""
    worker = deployment.worker("bie")
    job = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(job), "the stage runs")
    deployment.valkey.process.send_signal(signal.SIGSTOP)
    job.release()
    if is_long:
        until(lambda: f"Cannot report on job {job.job_id} yet" in deployment.log(worker), "a command was given up")
    else:
        time.sleep(1)
    deployment.valkey.process.send_signal(signal.SIGCONT)
    assert_recovered(deployment, [job])
    worker.kill()  # whoever comes next must not find it undone
    shown = assert_recovered(deployment, [job])
    assert shown[job.job_id]["status"] == "COMPLETED"


@pytest.fixture
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedDeployment]:
    """With the time-outs of the product, but for a sweep that comes a hundred times as often."""
    with SupervisedDeployment(tmp_path_factory.mktemp("patient"), bie=2, is_patient=True, worker_ttl_s="20") as made:
        yield made
        made.valkey.process.send_signal(signal.SIGCONT)


def test_a_busy_line_outlasts_a_redis_that_stalls_for_twenty_seconds(patient: SupervisedDeployment) -> None:
    ends_meanwhile, ends_after = (patient.submit(bie="wait:gate") for _ in range(2))
    until(lambda: patient.runs(ends_meanwhile) and patient.runs(ends_after), "both workers of BIE are busy")
    queued = patient.submit()
    until(lambda: patient.parts.broker.position("bie", queued.job_id) == 0, "a job waits for them")
    patient.hold("before-advance")
    reported = patient.submit()
    until(lambda: patient.reached("before-advance"), "the scheduler has a message in hand")
    in_onnx = patient.submit(onnx="wait:gate")
    until(lambda: patient.runs(in_onnx, Stage.ONNX), "the first stage is busy")
    behind = patient.submit()
    with Viewers(patient.url, ends_after.job_id, 3) as viewers:
        until(lambda: viewers.all_see(status="BIE"), "people watch")
        _stall(patient, [ends_meanwhile, in_onnx])
        ends_after.release()
        shown = assert_recovered(patient, [ends_meanwhile, ends_after, queued, reported, in_onnx, behind])
        until(viewers.are_gone, "all see the end")
        assert viewers.all_see(status="COMPLETED")
        assert [viewer.connections for viewer in viewers.crowd] == [1, 1, 1]
    assert [(answer["error"], patient.notices) for answer in shown.values()] == [(None, [])] * len(shown)
    assert patient.notices == []  # nobody had to be restarted


def _stall(deployment: SupervisedDeployment, finish: list[Job]) -> None:
    """While it lasts some jobs' stages end, the scheduler goes on, and whoever asks is told what is wrong."""
    ends_at = time.monotonic() + STALL_S
    deployment.valkey.process.send_signal(signal.SIGSTOP)
    deployment.release("before-advance")
    for job in finish:
        job.release()
    answer = httpx.get(f"{deployment.url}/jobs/{finish[0].job_id}", timeout=30)
    assert (answer.status_code, answer.json()["error"]["can_retry"]) == (503, True)
    assert "Redis" in answer.json()["error"]["message"]
    time.sleep(max(0.0, ends_at - time.monotonic()))
    deployment.valkey.process.send_signal(signal.SIGCONT)
