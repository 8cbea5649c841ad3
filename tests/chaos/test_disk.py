"""The disk under the work folder or the store is full: the job fails with that reason, however that was noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.faults.backend_deployment import BackendDeployment, small_disk
from tests.harness.faults.deployment import Job
from tests.harness.until import until

pytestmark = pytest.mark.slow
MIB = 1 << 20
DISK_MIB = 8


@pytest.fixture
def work_disk(deployment: BackendDeployment) -> Iterator[Path]:
    """A disk of 8 MiB for the work folders; those of the store and of the slots are on another."""
    with small_disk(deployment.settings().work, f"{DISK_MIB}m") as path:
        yield path


@pytest.fixture
def store_disk(deployment: BackendDeployment) -> Iterator[Path]:
    """A disk of 6 MiB for the store."""
    with small_disk(deployment.settings().objects, "6m") as path:
        yield path


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        pytest.param("fill", "No space left on device", id="the toolchain says so"),
        pytest.param(
            "fill-quietly", "ended with exit code 1", id="the toolchain says nothing", marks=pytest.mark.exhaustive
        ),
        pytest.param(f"talk:{2 * DISK_MIB * MIB}", "No space left on device", id="its log does it"),
    ],
)
def test_a_stage_that_fills_the_disk_fails_with_that_reason(
    deployment: BackendDeployment, work_disk: Path, word: str, cause: str
) -> None:
    worker = deployment.worker("bie")
    error = failed(deployment, deployment.submit(bie=word))
    assert cause in error["detail"]["cause"]
    assert worker.is_alive()


def test_inputs_that_do_not_fit_on_the_disk_fail_the_job_with_that_reason(
    deployment: BackendDeployment, work_disk: Path
) -> None:
    worker = deployment.worker("bie")
    deployment.hold("after-take.bie")
    job = deployment.submit(padding="x" * MIB)
    until(lambda: deployment.runs(job), what="the stage is about to take its inputs")
    ballast = work_disk / "of somebody else"
    ballast.write_bytes(bytes((DISK_MIB - 1) * MIB))
    deployment.release("after-take.bie")
    until(lambda: deployment.record(job).is_terminal, what="the stage failed")
    ballast.unlink()
    failed(deployment, job)
    assert job.starts() == {"onnx": 1}
    assert worker.is_alive()


def test_a_store_whose_disk_is_full_fails_the_job_at_once_and_keeps_no_piece_of_the_result(
    deployment: BackendDeployment, store_disk: Path
) -> None:
    worker = deployment.worker("bie")
    job = deployment.submit(bie=f"grow:{8 * MIB}")
    job.release()
    (error,) = deployment.failed(job)
    assert error["code"] == "STORE_FULL"
    assert "The object store is full" in error["reason"] and "No space left on device" in error["reason"]
    assert "enlarge the disk" in error["hint"]
    assert deployment.results(job) == set()
    assert not list((store_disk / "drafts").iterdir())
    assert worker.is_alive()


def failed(deployment: BackendDeployment, job: Job) -> dict[str, object]:
    """The error that the API shows, which is that of a full disk."""
    (error,) = deployment.failed(job)
    assert error["code"] == "WORK_DISK_FULL", error
    assert error["reason"] == "no space left on the work disk of worker here/bie/0"
    assert "MODELMILL_WORK_DIR" in error["hint"]
    return error
