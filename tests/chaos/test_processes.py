"""Processes that die: nothing runs twice, nothing is left hanging, nothing is left behind."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable

import pytest

from app.conversion.model import JobRecord
from tests.chaos.invariants import ONCE, assert_recovered
from tests.chaos.stand import OWNER, FaultStand, Job, WorkerProcess, are_gone, until

pytestmark = pytest.mark.slow


def hanging(stand: FaultStand) -> Job:
    job = stand.submit(bie="hang")
    until(job.hangs, "the stage hangs")
    return job


def assert_failed(record: JobRecord, reason: str) -> None:
    assert record.status == "FAILED"
    assert record.error is not None
    assert (record.error.step, record.error.reason) == ("bie", reason)


def assert_completed(stand: FaultStand, jobs: list[Job]) -> None:
    shown = assert_recovered(stand, jobs)
    assert [answer["status"] for answer in shown.values()] == ["COMPLETED"] * len(jobs)
    assert [job.starts() for job in jobs] == [ONCE] * len(jobs)


# --- a stage's worker -------------------------------------------------------------------------------
@pytest.mark.parametrize("kill", [WorkerProcess.kill_child, WorkerProcess.kill], ids=["child", "master and child"])
def test_the_job_of_a_killed_worker_fails_as_worker_lost_and_is_never_run_again(
    stand: FaultStand, kill: Callable[[WorkerProcess], None]
) -> None:
    worker = stand.worker("bie")
    job = hanging(stand)
    kill(worker)
    until(lambda: worker.master.poll() is not None, "the master ended too")
    until(lambda: are_gone(job.processes()), "the toolchain is gone")
    assert_recovered(stand, [job])
    assert_failed(stand.record(job), "worker lost")
    assert job.starts() == {"onnx": 1, "bie": 1}


def test_a_worker_process_ends_with_its_master(stand: FaultStand) -> None:
    worker = stand.worker("bie")
    job = hanging(stand)
    worker.master.kill()
    until(lambda: are_gone([worker.child, *job.processes()]), "the orphan and its toolchain are gone")
    assert_recovered(stand, [job])


def test_a_job_that_was_fetched_and_not_begun_is_run_once_by_the_next_worker(stand: FaultStand) -> None:
    stand.hold("before-take")
    job = stand.submit()
    until(lambda: stand.reached("before-take"), "the message was fetched")
    onnx = next(worker for worker in stand.running if worker.queue == "onnx")
    assert stand.parts.broker.waiting("onnx") == 0
    onnx.kill()
    stand.release("before-take")
    assert_completed(stand, [job])


def test_the_sweep_fails_the_job_of_a_worker_that_never_comes_back_and_no_other(stand: FaultStand) -> None:
    lost_worker = stand.worker("bie")
    lost = hanging(stand)
    stand.worker("bie")
    kept = stand.submit(bie="wait:gate")
    until(lambda: stand.runs(kept), "the other worker works")
    lost_worker.kill()
    _sweep_until(stand, lambda: stand.record(lost).is_terminal)
    assert_failed(stand.record(lost), "worker lost")
    assert stand.runs(kept)
    kept.release()
    stand.worker("bie")  # the host is back at last: what it left behind goes
    assert_recovered(stand, [lost, kept])
    assert stand.record(kept).status == "COMPLETED"


def test_the_sweep_is_not_deceived_by_a_new_worker_of_the_dead_ones_name(stand: FaultStand) -> None:
    """A host that comes back under its old name with an empty disk."""
    worker = stand.worker("bie")
    job = hanging(stand)
    worker.kill()
    _is_silent_for_long(stand, "bie")
    until(lambda: are_gone(job.processes()), "the toolchain is gone")
    (stand.settings().run / "slots" / "bie-0.json").unlink()
    shutil.rmtree(stand.work_folder(job), ignore_errors=True)
    stand.worker("bie")
    _sweep_until(stand, lambda: stand.record(job).is_terminal)
    assert_failed(stand.record(job), "worker lost")
    assert_recovered(stand, [job])


def _is_silent_for_long(stand: FaultStand, queue: str) -> None:
    """So that the broker's own maintenance, which waits for a minute, takes the reader of this queue for dead now."""
    client = stand.parts.broker.client
    [key] = client.keys(f"queue:__acks__.*.{queue}")
    client.zadd("queue:__heartbeats__", {key.decode().split(".")[1]: 0})


def _sweep_until(stand: FaultStand, condition: Callable[[], bool]) -> None:
    sweeper = stand.start(stand.command("periodic"))

    def sweep_once() -> bool:
        if not stand.parts.broker.holds("periodic", "sweep"):
            stand.parts.broker.send("periodic", "sweep", message_id="sweep")
        return condition()

    until(sweep_once, "the sweep found it")
    until(lambda: not stand.parts.broker.holds("periodic", "sweep"), "the last sweep is done")
    sweeper.terminate()
    sweeper.wait(30)


# --- told to end ------------------------------------------------------------------------------------
def test_a_worker_told_to_end_in_mid_stage_says_so_and_leaves_nothing(stand: FaultStand) -> None:
    worker = stand.worker("bie")
    job = hanging(stand)
    worker.master.terminate()
    assert worker.master.wait(60) == 0
    assert are_gone(job.processes())
    assert_failed(stand.ended(job), "the worker was shut down")
    assert not stand.work_folder(job).exists()
    assert_recovered(stand, [job])
    assert job.starts()["bie"] == 1


def test_an_idle_worker_told_to_end_clears_its_slot(stand: FaultStand) -> None:
    worker = stand.worker("bie")
    slot = stand.settings().run / "slots" / "bie-0.json"
    assert slot.read_text()
    worker.master.send_signal(signal.SIGTERM)
    assert worker.master.wait(60) == 0
    assert slot.read_text() == ""
    assert not [name for name in stand.parts.store.workers() if "/bie/" in name]


def test_a_job_in_the_hands_of_a_worker_told_to_end_is_not_lost(stand: FaultStand) -> None:
    """The signal comes between the fetch and the work."""
    worker = stand.worker("bie")
    job = stand.submit(onnx="wait:gate")
    until(lambda: job.starts()["onnx"], "the stage before runs")
    stand.hold("before-take")
    job.release()
    until(lambda: stand.reached("before-take"), "the message was fetched")
    worker.master.terminate()
    assert worker.master.wait(60) == 0
    stand.release("before-take")
    assert_completed(stand, [job])


# --- the scheduler ----------------------------------------------------------------------------------
@pytest.mark.parametrize("moment", ["before-advance", "after-advance"])
def test_jobs_whose_scheduler_was_killed_go_on_with_the_next_and_no_stage_runs_twice(
    stand: FaultStand, moment: str
) -> None:
    stand.worker("bie")
    first = stand.submit(onnx="wait:gate")
    jobs = [first, *(stand.submit() for _ in range(5))]
    stand.hold(moment)
    first.release()
    until(lambda: stand.reached(moment), "the scheduler is at work")
    until(lambda: all(job.starts()["onnx"] for job in jobs), "every done message is sent")
    next(worker for worker in stand.running if worker.queue == "done").kill()
    stand.release(moment)
    assert_completed(stand, jobs)


def test_a_scheduler_told_to_end_between_record_and_queue_finishes_first(stand: FaultStand) -> None:
    stand.worker("bie")
    job = stand.submit(onnx="wait:gate")
    until(lambda: job.starts()["onnx"], "the first stage runs")
    stand.hold("after-advance")
    job.release()
    until(lambda: stand.reached("after-advance"), "the scheduler is at work")
    scheduler = next(worker for worker in stand.running if worker.queue == "done")
    scheduler.master.terminate()
    until(lambda: "Shutting down..." in stand.log(scheduler), "it was told")
    stand.release("after-advance")
    assert scheduler.master.wait(60) == 0
    assert stand.record(job).stage == "BIE" or stand.parts.broker.holds("bie", job.job_id)
    assert_completed(stand, [job])


# --- cancel -----------------------------------------------------------------------------------------
def test_a_cancelled_stage_that_ignores_signals_leaves_no_process_in_any_session(stand: FaultStand) -> None:
    worker = stand.worker("bie")
    job = hanging(stand)
    record = stand.parts.conversion.jobs.cancel(job.job_id, OWNER)
    assert_failed(record, "CANCELLED")
    *toolchain, supervisor, _server = job.processes()
    until(lambda: are_gone([*toolchain, supervisor]), "the toolchain is gone")
    until(lambda: not stand.work_folder(job).exists(), "its folder is gone")
    assert worker.is_alive()
    assert_recovered(stand, [job])
    assert_failed(stand.record(job), "CANCELLED")
