"""The disk under the work folder is full: the job fails with that reason, however the stage came to notice it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.faulty_stand import FaultyStand, small_disk
from tests.chaos.stand import Job, until

pytestmark = pytest.mark.slow
MIB = 1 << 20
DISK_MIB = 8


@pytest.fixture(scope="module")
def shared_stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyStand]:
    """The work folders are on a disk of 8 MiB; those of the store and of the slots are on another."""
    folder = tmp_path_factory.mktemp("disk")
    work = folder / "data" / "work"
    with small_disk(work, f"{DISK_MIB}m"), FaultyStand(folder, work_dir=str(work)) as made:
        yield made


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        pytest.param("fill", "No space left on device", id="the toolchain says so"),
        pytest.param("fill-quietly", "ended with exit code 1", id="the toolchain says nothing"),
        pytest.param(f"talk:{2 * DISK_MIB * MIB}", "No space left on device", id="its log does it"),
    ],
)
def test_a_stage_that_fills_the_disk_fails_with_that_reason(stand: FaultyStand, word: str, cause: str) -> None:
    worker = stand.worker("bie")
    error = failed(stand, stand.submit(bie=word))
    assert cause in error["detail"]["cause"]
    assert worker.is_alive()


def test_inputs_that_do_not_fit_on_the_disk_fail_the_job_with_that_reason(stand: FaultyStand) -> None:
    worker = stand.worker("bie")
    stand.hold("after-take.bie")
    job = stand.submit(padding="x" * MIB)
    until(lambda: stand.runs(job), "the stage is about to take its inputs")
    ballast = Path(stand.given["work_dir"]) / "of somebody else"
    ballast.write_bytes(bytes((DISK_MIB - 1) * MIB))
    stand.release("after-take.bie")
    until(lambda: stand.record(job).is_terminal, "the stage failed")
    ballast.unlink()
    failed(stand, job)
    assert job.starts() == {"onnx": 1}
    assert worker.is_alive()


def failed(stand: FaultyStand, job: Job) -> dict[str, object]:
    """The error that the API shows, which is that of a full disk."""
    (error,) = stand.failed(job)
    assert error["code"] == "WORK_DISK_FULL", error
    assert error["reason"] == "no space left on the work disk of worker here/bie/0"
    assert "MODELMILL_WORK_DIR" in error["hint"]
    return error
