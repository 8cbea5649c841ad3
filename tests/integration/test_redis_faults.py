"""Redis that dies or stalls under the work: a reset is a reset, a pause is only a pause."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from app.conversion.errors import JobNotFound
from tests.integration.fault_stand import OWNER, FaultStand, WorkerProcess, are_gone, until

pytestmark = pytest.mark.slow
ONCE = {"onnx": 1, "bie": 1, "nef": 1}


@pytest.fixture(scope="module")
def shared_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultStand]:
    with FaultStand(tmp_path_factory.mktemp("redis-faults")) as made:
        yield made


@pytest.fixture
def stand(shared_stand: FaultStand) -> Iterator[FaultStand]:
    shared_stand.line()
    yield shared_stand
    shared_stand.valkey.process.send_signal(signal.SIGCONT)
    shared_stand.clear()


def test_a_restart_of_redis_in_mid_stage_ends_the_stage_and_forgets_the_job(stand: FaultStand) -> None:
    worker = stand.worker("bie")
    job = stand.submit(bie="hang")
    until(job.hangs, "the stage hangs")
    stand.valkey.kill()
    stand.valkey.start()
    with pytest.raises(JobNotFound, match=job.job_id):
        stand.parts.conversion.jobs.get(job.job_id, OWNER)
    *toolchain, supervisor, _server = job.processes()
    until(lambda: are_gone([*toolchain, supervisor]), "the toolchain is gone")
    until(lambda: not stand.work_folder(job).exists(), "its folder is gone")
    stand.works_on()
    assert worker.is_alive()
    with pytest.raises(JobNotFound):
        stand.parts.conversion.jobs.get(job.job_id, OWNER)
    assert job.starts() == {"onnx": 1, "bie": 1}


@pytest.mark.parametrize("stall_s", [1.5, 12], ids=["shorter than a command's patience", "longer"])
def test_a_stage_that_ends_while_redis_stalls_is_counted_once(stand: FaultStand, stall_s: float) -> None:
    """A command gives up after two seconds (in these tests); the worker never does."""
    worker = stand.worker("bie")
    job = stand.submit(bie="wait:gate")
    until(lambda: stand.runs(job), "the stage runs")
    stand.valkey.process.send_signal(signal.SIGSTOP)
    job.release()
    time.sleep(stall_s)
    stand.valkey.process.send_signal(signal.SIGCONT)
    assert stand.ended(job).status == "COMPLETED"
    until(lambda: not any(_in_hand(stand, step) for step in ONCE), "every message is acknowledged")
    assert (f"Cannot report on job {job.job_id} yet" in stand.log(worker)) == (stall_s > 2)
    worker.kill()  # whoever comes next must not find it undone
    stand.worker("bie")
    stand.works_on()
    assert job.starts() == ONCE


def test_jobs_that_wait_while_redis_stalls_all_run_once(stand: FaultStand) -> None:
    workers = [stand.worker("bie") for _ in range(2)]
    first = stand.submit(onnx="wait:gate")
    jobs = [first, *(stand.submit() for _ in range(3))]
    until(lambda: first.starts()["onnx"], "the line is busy")
    stand.valkey.process.send_signal(signal.SIGSTOP)
    first.release()
    time.sleep(8)
    stand.valkey.process.send_signal(signal.SIGCONT)
    assert [stand.ended(job).status for job in jobs] == ["COMPLETED"] * len(jobs)
    assert [job.starts() for job in jobs] == [ONCE] * len(jobs)
    assert all(WorkerProcess.is_alive(worker) for worker in workers)


def _in_hand(stand: FaultStand, step: str) -> int:
    """How many messages the queue still keeps, waiting or unacknowledged."""
    return int(stand.parts.broker.client.hlen(f"queue:{step}.msgs"))
