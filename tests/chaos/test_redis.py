"""Redis that dies or stalls under the work: a reset is a reset, a pause is only a pause."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from app.conversion.model import Stage
from tests.chaos.invariants import assert_forgotten, assert_recovered
from tests.chaos.stand import FaultStand, Job, until
from tests.chaos.supervised import SupervisedStand
from tests.chaos.viewers import Viewers

pytestmark = pytest.mark.slow
STALL_S = 20


# --- killed, and back with nothing ------------------------------------------------------------------
def _in_mid_stage(stand: SupervisedStand) -> list[Job]:
    job = stand.submit(bie="hang")
    until(job.hangs, "the stage hangs")
    return [job]


def _with_jobs_queued(stand: SupervisedStand) -> list[Job]:
    jobs = [stand.submit(onnx="wait:gate"), *(stand.submit() for _ in range(3))]
    until(lambda: jobs[0].starts()["onnx"], "the first runs")
    assert stand.parts.broker.waiting("onnx") == 3
    return jobs


def _with_done_messages_waiting(stand: SupervisedStand) -> list[Job]:
    stand.hold("before-advance")
    jobs = [stand.submit() for _ in range(4)]
    until(lambda: stand.parts.broker.client.hlen("queue:done.msgs") == 4, "every job has reported")
    return jobs


@pytest.mark.parametrize("down_s", [0, 3], ids=["at once", "after a while"])
@pytest.mark.parametrize("prepare", [_in_mid_stage, _with_jobs_queued, _with_done_messages_waiting])
def test_redis_comes_back_empty(
    supervised: SupervisedStand, prepare: Callable[[SupervisedStand], list[Job]], down_s: float
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
def test_a_stage_that_ends_while_redis_stalls_is_counted_once(stand: FaultStand, is_long: bool) -> None:
    """A command gives up after two seconds (in these tests); the worker never does."""
    worker = stand.worker("bie")
    job = stand.submit(bie="wait:gate")
    until(lambda: stand.runs(job), "the stage runs")
    stand.valkey.process.send_signal(signal.SIGSTOP)
    job.release()
    if is_long:
        until(lambda: f"Cannot report on job {job.job_id} yet" in stand.log(worker), "a command was given up")
    else:
        time.sleep(1)
    stand.valkey.process.send_signal(signal.SIGCONT)
    assert_recovered(stand, [job])
    worker.kill()  # whoever comes next must not find it undone
    shown = assert_recovered(stand, [job])
    assert shown[job.job_id]["status"] == "COMPLETED"


@pytest.fixture
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStand]:
    """With the time-outs of the product, but for a sweep that comes a hundred times as often."""
    with SupervisedStand(tmp_path_factory.mktemp("patient"), bie=2, is_patient=True, worker_ttl_s="20") as made:
        yield made
        made.valkey.process.send_signal(signal.SIGCONT)


def test_a_busy_line_outlasts_a_redis_that_stalls_for_twenty_seconds(patient: SupervisedStand) -> None:
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


def _stall(stand: SupervisedStand, finish: list[Job]) -> None:
    """While it lasts some jobs' stages end, the scheduler goes on, and whoever asks is told what is wrong."""
    ends_at = time.monotonic() + STALL_S
    stand.valkey.process.send_signal(signal.SIGSTOP)
    stand.release("before-advance")
    for job in finish:
        job.release()
    answer = httpx.get(f"{stand.url}/jobs/{finish[0].job_id}", timeout=30)
    assert (answer.status_code, answer.json()["error"]["can_retry"]) == (503, True)
    assert "Redis" in answer.json()["error"]["message"]
    time.sleep(max(0.0, ends_at - time.monotonic()))
    stand.valkey.process.send_signal(signal.SIGCONT)
