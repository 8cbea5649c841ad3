"""Processes that die: nothing runs twice, nothing is left hanging, nothing is left behind."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable

import pytest

from app.conversion.model import JobRecord
from app.conversion.toolchains.libraries import CHECKS
from tests.harness.faults.deployment import OWNER, FaultDeployment, Job, WorkerProcess, are_gone
from tests.harness.faults.invariants import ONCE, assert_recovered
from tests.harness.processes import commands_below
from tests.harness.until import PATIENCE_S, until
from tests.harness.variants import exhaustive

pytestmark = pytest.mark.slow


@pytest.fixture
def commands(deployment: FaultDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are started by their command, to the letter, and not as copies of a process that has imported all."""
    monkeypatch.setattr(deployment, "has_copies", False)


def hanging(deployment: FaultDeployment) -> Job:
    job = deployment.submit(bie="hang")
    until(job.hangs, what="the stage hangs")
    return job


def assert_failed(record: JobRecord, reason: str) -> None:
    assert record.status == "FAILED"
    assert record.error is not None
    assert (record.error.step, record.error.reason) == ("bie", reason)


def assert_completed(deployment: FaultDeployment, jobs: list[Job]) -> None:
    shown = assert_recovered(deployment, jobs)
    assert [answer["status"] for answer in shown.values()] == ["COMPLETED"] * len(jobs)
    assert [job.starts() for job in jobs] == [ONCE] * len(jobs)


def test_the_workers_here_load_no_library_of_a_toolchain(deployment: FaultDeployment) -> None:
    """For many are started, and each would load them for half a second."""
    worker = deployment.worker("bie")
    until(lambda: servers(worker), what="its fork server is there")
    assert not any(set(CHECKS) & set(server) for server in servers(worker))


def servers(worker: WorkerProcess) -> list[list[str]]:
    """The commands of its fork server."""
    return [command for command in commands_below(worker.child) if "app.kit.sandbox.fork_server" in command]


# --- a stage's worker -------------------------------------------------------------------------------
@pytest.mark.usefixtures("commands")
@pytest.mark.parametrize(
    "kill",
    [*exhaustive(WorkerProcess.kill_child, ids="child"), pytest.param(WorkerProcess.kill, id="master and child")],
)
def test_the_job_of_a_killed_worker_fails_as_worker_lost_and_is_never_run_again(
    deployment: FaultDeployment, kill: Callable[[WorkerProcess], None]
) -> None:
    worker = deployment.worker("bie")
    job = hanging(deployment)
    kill(worker)
    until(lambda: worker.master.poll() is not None, what="the master ended too")
    until(lambda: not job.is_alive(), what="the toolchain is gone")
    assert_recovered(deployment, [job])
    assert_failed(deployment.record(job), "worker lost")
    assert job.starts() == {"onnx": 1, "bie": 1}


@pytest.mark.usefixtures("commands")
def test_a_worker_process_ends_with_its_master(deployment: FaultDeployment) -> None:
    worker = deployment.worker("bie")
    job = hanging(deployment)
    worker.master.kill()
    until(lambda: are_gone([worker.child]) and not job.is_alive(), what="the orphan and its toolchain are gone")
    assert_recovered(deployment, [job])


def test_a_job_that_was_fetched_and_not_begun_is_run_once_by_the_next_worker(deployment: FaultDeployment) -> None:
    deployment.hold("before-take")
    job = deployment.submit()
    until(lambda: deployment.reached("before-take"), what="the message was fetched")
    onnx = next(worker for worker in deployment.running if worker.queue == "onnx")
    assert deployment.container.broker.waiting("onnx") == 0
    onnx.kill()
    deployment.release("before-take")
    assert_completed(deployment, [job])


def test_a_worker_that_is_killed_after_its_report_takes_nothing_from_the_job(deployment: FaultDeployment) -> None:
    """Its slot names the job still, and the folder in which the next stage works by now."""
    deployment.worker("bie")
    job = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(job), what="the next stage runs")
    next(worker for worker in deployment.running if worker.queue == "onnx").kill()
    deployment.worker("onnx")
    assert deployment.work_folder(job).exists()
    job.release()
    assert_completed(deployment, [job])


def test_the_sweep_fails_the_job_of_a_worker_that_never_comes_back_and_no_other(deployment: FaultDeployment) -> None:
    lost_worker = deployment.worker("bie")
    lost = hanging(deployment)
    deployment.worker("bie")
    kept = deployment.submit(bie="wait:gate")
    until(lambda: deployment.runs(kept), what="the other worker works")
    lost_worker.kill()
    _sweep_until(deployment, lambda: deployment.record(lost).is_terminal)
    assert_failed(deployment.record(lost), "worker lost")
    assert deployment.runs(kept)
    kept.release()
    deployment.worker("bie")  # the host is back at last: what it left behind goes
    assert_recovered(deployment, [lost, kept])
    assert deployment.record(kept).status == "COMPLETED"


def test_the_sweep_is_not_deceived_by_a_new_worker_of_the_dead_ones_name(deployment: FaultDeployment) -> None:
    """A host that comes back under its old name with an empty disk."""
    worker = deployment.worker("bie")
    job = hanging(deployment)
    worker.kill()
    _is_silent_for_long(deployment, "bie")
    until(lambda: not job.is_alive(), what="the toolchain is gone")
    (deployment.settings().run / "slots" / "bie-0.json").unlink()
    shutil.rmtree(deployment.work_folder(job), ignore_errors=True)
    deployment.worker("bie")
    _sweep_until(deployment, lambda: deployment.record(job).is_terminal)
    assert_failed(deployment.record(job), "worker lost")
    assert_recovered(deployment, [job])


def _is_silent_for_long(deployment: FaultDeployment, queue: str) -> None:
    """So that the broker's own maintenance, which waits for a minute, takes the reader of this queue for dead now."""
    client = deployment.container.broker.client
    [key] = client.keys(f"queue:__acks__.*.{queue}")
    client.zadd("queue:__heartbeats__", {key.decode().split(".")[1]: 0})


def _sweep_until(deployment: FaultDeployment, condition: Callable[[], bool]) -> None:
    sweeper = deployment.start(deployment.command("periodic"))

    def sweep_once() -> bool:
        if not deployment.container.broker.holds("periodic", "sweep"):
            deployment.container.broker.send("periodic", "sweep", message_id="sweep")
        return condition()

    until(sweep_once, what="the sweep found it")
    until(lambda: not deployment.container.broker.holds("periodic", "sweep"), what="the last sweep is done")
    sweeper.terminate()
    sweeper.wait(PATIENCE_S)


# --- told to end ------------------------------------------------------------------------------------
def test_a_worker_told_to_end_in_mid_stage_says_so_and_leaves_nothing(deployment: FaultDeployment) -> None:
    worker = deployment.worker("bie")
    job = hanging(deployment)
    worker.master.terminate()
    assert worker.master.wait(PATIENCE_S) == 0
    assert not job.is_alive()
    assert_failed(deployment.ended(job), "the worker was shut down")
    assert not deployment.work_folder(job).exists()
    assert_recovered(deployment, [job])
    assert job.starts()["bie"] == 1


def test_an_idle_worker_told_to_end_clears_its_slot(deployment: FaultDeployment) -> None:
    worker = deployment.worker("bie")
    slot = deployment.settings().run / "slots" / "bie-0.json"
    assert slot.read_text()
    worker.master.send_signal(signal.SIGTERM)
    assert worker.master.wait(PATIENCE_S) == 0
    assert slot.read_text() == ""
    assert not [name for name in deployment.container.store.workers() if "/bie/" in name]


def test_a_job_in_the_hands_of_a_worker_told_to_end_is_not_lost(deployment: FaultDeployment) -> None:
    """The signal comes between the fetch and the work."""
    worker = deployment.worker("bie")
    job = deployment.submit(onnx="wait:gate")
    until(lambda: job.starts()["onnx"], what="the stage before runs")
    deployment.hold("before-take")
    job.release()
    until(lambda: deployment.reached("before-take"), what="the message was fetched")
    worker.master.terminate()
    assert worker.master.wait(PATIENCE_S) == 0
    deployment.release("before-take")
    assert_completed(deployment, [job])


# --- the scheduler ----------------------------------------------------------------------------------
@pytest.mark.parametrize("moment", ["after-advance", *exhaustive("before-advance", "after-taken-in")])
def test_jobs_whose_scheduler_was_killed_go_on_with_the_next_and_no_stage_runs_twice(
    deployment: FaultDeployment, moment: str
) -> None:
    deployment.worker("bie")
    first = deployment.submit(onnx="wait:gate")
    jobs = [first, *(deployment.submit() for _ in range(5))]
    deployment.hold(moment)
    first.release()
    until(lambda: deployment.reached(moment), what="the scheduler is at work")
    until(lambda: all(job.starts()["onnx"] for job in jobs), what="every done message is sent")
    next(worker for worker in deployment.running if worker.queue == "done").kill()
    deployment.release(moment)
    assert_completed(deployment, jobs)


def test_a_scheduler_told_to_end_between_record_and_queue_finishes_first(deployment: FaultDeployment) -> None:
    deployment.worker("bie")
    job = deployment.submit(onnx="wait:gate")
    until(lambda: job.starts()["onnx"], what="the first stage runs")
    deployment.hold("after-advance")
    job.release()
    until(lambda: deployment.reached("after-advance"), what="the scheduler is at work")
    scheduler = next(worker for worker in deployment.running if worker.queue == "done")
    scheduler.master.terminate()
    until(lambda: "Shutting down..." in deployment.log(scheduler), what="it was told")
    deployment.release("after-advance")
    assert scheduler.master.wait(PATIENCE_S) == 0
    assert deployment.record(job).stage == "BIE" or deployment.container.broker.holds("bie", job.job_id)
    assert_completed(deployment, [job])


# --- cancel -----------------------------------------------------------------------------------------
def test_a_cancelled_stage_that_ignores_signals_leaves_no_process_in_any_session(deployment: FaultDeployment) -> None:
    worker = deployment.worker("bie")
    job = hanging(deployment)
    record = deployment.container.conversion.jobs.cancel(job.job_id, OWNER)
    assert_failed(record, "CANCELLED")
    until(lambda: not job.is_alive(), what="the toolchain is gone")
    until(lambda: not deployment.work_folder(job).exists(), what="its folder is gone")
    assert worker.is_alive()
    assert_recovered(deployment, [job])
    assert_failed(deployment.record(job), "CANCELLED")
