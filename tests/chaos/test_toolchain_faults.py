"""Toolchains that do the worst they can: the job fails with a reason, the worker lives on, nothing of it is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.conversion import object_keys
from app.conversion.model import Stage
from tests.harness.faults.backend_deployment import BackendDeployment
from tests.harness.faults.deployment import OWNER, WorkerProcess
from tests.harness.faults.invariants import assert_recovered
from tests.harness.until import until
from tests.harness.variants import exhaustive

pytestmark = pytest.mark.slow
MIB = 1 << 20
LOG_BYTES, LIVE_LOG_BYTES = 48 * MIB, 64 << 10
GROWTH_BYTES = 24 * MIB


LIMITS = {
    "stage_memory_bytes": str(400 * MIB),
    "bie_time_s": "20",
    "log_bytes": str(LOG_BYTES),
    "live_log_bytes": str(LIVE_LOG_BYTES),
    "max_artifact_bytes": str(4 * MIB),
}


def test_a_toolchain_that_crashes_costs_its_job_and_nothing_else(deployment: BackendDeployment) -> None:
    worker = deployment.worker("bie", **LIMITS)
    (error,) = deployment.failed(deployment.submit(bie="segfault"))
    assert error["code"] == "STAGE_CRASHED"
    assert error["reason"] == "crashed: SIGSEGV"
    assert worker.is_alive()


def test_a_toolchain_that_eats_memory_is_stopped_at_its_limit(deployment: BackendDeployment) -> None:
    worker = deployment.worker("bie", **LIMITS)
    (error,) = deployment.failed(deployment.submit(bie="eat"))
    assert error["code"] == "STAGE_OUT_OF_MEMORY"
    assert "out of memory: it needs more than the 0.4 GiB a stage may use" in error["reason"]
    assert "fewer or smaller reference pictures" in error["hint"]
    assert worker.is_alive()


def test_children_that_a_toolchain_leaves_behind_end_with_its_stage(deployment: BackendDeployment) -> None:
    """They ignore SIGTERM and have sessions of their own; the stage itself did its work."""
    worker = deployment.worker("bie", **LIMITS)
    job = deployment.submit(bie="brood")
    shown = assert_recovered(deployment, [job])
    assert shown[job.job_id]["status"] == "COMPLETED"
    assert len(job.processes()) == 3
    assert not job.is_alive()
    assert worker.is_alive()


def test_a_toolchain_that_hangs_and_obeys_no_signal_is_ended_at_its_time_limit(deployment: BackendDeployment) -> None:
    worker = deployment.worker("bie", **{**LIMITS, "bie_time_s": "2"})
    job = deployment.submit(bie="hang")
    (error,) = deployment.failed(job)
    assert error["code"] == "STAGE_TIMED_OUT"
    assert error["reason"] == "timed out after 2 s"
    assert job.hangs(), "it was at it when it was ended"
    assert not job.is_alive()
    assert worker.is_alive()


@pytest.mark.parametrize("size", [1 << 28, *exhaustive(1 << 30)])
def test_a_flood_of_log_is_cut_and_neither_stops_the_stage_nor_fills_any_memory(
    deployment: BackendDeployment, size: int
) -> None:
    worker = deployment.worker("bie", **LIMITS)
    deployment.works_on()
    before = peak_bytes(worker)
    redis_before = deployment.redis.info("memory")["used_memory"]
    job = deployment.submit(bie=f"talk:{size}")
    until((job.notes / "talked").exists, what="it has all been said")
    key = f"job:{job.job_id}:log:bie"
    until(
        lambda: deployment.redis.strlen(key) == LIVE_LOG_BYTES,
        what=lambda: f"live log: {deployment.redis.strlen(key)} bytes",
    )
    assert deployment.redis.info("memory")["used_memory"] - redis_before < 4 * MIB
    job.release()
    shown = assert_recovered(deployment, [job])
    assert shown[job.job_id]["status"] == "COMPLETED", shown
    assert peak_bytes(worker) - before < GROWTH_BYTES
    log = object_keys.log(job.job_id, Stage.BIE)
    end = b"".join(deployment.container.objects.read(log, start=LOG_BYTES))
    notice = re.fullmatch(rb"\n\[log limit of (\d+) bytes reached: (\d+) more bytes were dropped\]\n", end)
    assert notice, end
    assert int(notice[1]) == LOG_BYTES
    assert int(notice[1]) + int(notice[2]) >= size
    portion = deployment.container.conversion.jobs.log(job.job_id, Stage.BIE, LOG_BYTES, OWNER)
    assert portion.text == end and portion.is_complete


def test_an_output_larger_than_an_artifact_may_be_is_refused_and_not_kept(deployment: BackendDeployment) -> None:
    deployment.worker("bie", **LIMITS)
    job = deployment.submit(bie=f"grow:{5 * MIB}")
    job.release()
    (error,) = deployment.failed(job)
    assert error["reason"] == f"out.bie is larger than the {4 * MIB} bytes that an artifact may have"
    stored = {info.key for info in deployment.container.objects.list(object_keys.job(job.job_id))}
    assert object_keys.log(job.job_id, Stage.BIE) in stored
    assert not {object_keys.result(job.job_id, Stage.BIE), object_keys.report(job.job_id, Stage.BIE)} & stored


def peak_bytes(worker: WorkerProcess) -> int:
    """The most memory the worker process has had at once so far."""
    status = Path(f"/proc/{worker.child}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10
