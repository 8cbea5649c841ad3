"""The disk under the work folder is full: the job fails with that reason, however the stage came to notice it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.faults.deployment import Job, until
from tests.harness.faults.failing_deployment import FailingDeployment, small_disk

pytestmark = pytest.mark.slow
MIB = 1 << 20
DISK_MIB = 8


@pytest.fixture(scope="module")
def shared_deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingDeployment]:
    """The work folders are on a disk of 8 MiB; those of the store and of the slots are on another."""
    folder = tmp_path_factory.mktemp("disk")
    work = folder / "data" / "work"
    with small_disk(work, f"{DISK_MIB}m"), FailingDeployment(folder, work_dir=str(work)) as made:
        yield made


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        pytest.param("fill", "No space left on device", id="the toolchain says so"),
        pytest.param("fill-quietly", "ended with exit code 1", id="the toolchain says nothing"),
        pytest.param(f"talk:{2 * DISK_MIB * MIB}", "No space left on device", id="its log does it"),
    ],
)
def test_a_stage_that_fills_the_disk_fails_with_that_reason(
    deployment: FailingDeployment, word: str, cause: str
) -> None:
    worker = deployment.worker("bie")
    error = failed(deployment, deployment.submit(bie=word))
    assert cause in error["detail"]["cause"]
    assert worker.is_alive()


def test_inputs_that_do_not_fit_on_the_disk_fail_the_job_with_that_reason(deployment: FailingDeployment) -> None:
    worker = deployment.worker("bie")
    deployment.hold("after-take.bie")
    job = deployment.submit(padding="x" * MIB)
    until(lambda: deployment.runs(job), "the stage is about to take its inputs")
    ballast = Path(deployment.given["work_dir"]) / "of somebody else"
    ballast.write_bytes(bytes((DISK_MIB - 1) * MIB))
    deployment.release("after-take.bie")
    until(lambda: deployment.record(job).is_terminal, "the stage failed")
    ballast.unlink()
    failed(deployment, job)
    assert job.starts() == {"onnx": 1}
    assert worker.is_alive()


def failed(deployment: FailingDeployment, job: Job) -> dict[str, object]:
    """The error that the API shows, which is that of a full disk."""
    (error,) = deployment.failed(job)
    assert error["code"] == "WORK_DISK_FULL", error
    assert error["reason"] == "no space left on the work disk of worker here/bie/0"
    assert "MODELMILL_WORK_DIR" in error["hint"]
    return error
