"""The deployment for faults of what workers lean on: they run `backend_stages`, its settings are the test's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.conversion import object_keys
from app.conversion.model import Stage
from app.settings import Settings
from tests.harness.faults.deployment import FaultDeployment, Job
from tests.harness.faults.invariants import assert_recovered


class BackendDeployment(FaultDeployment):
    """settings: of the whole product."""

    actors = "tests.harness.faults.backend_actors"

    def __init__(self, folder: Path, **settings: str) -> None:
        self.given: dict[str, Any] = {**settings}
        super().__init__(folder, **settings)

    def settings(self) -> Settings:
        return Settings(data_dir=self.folder / "data", redis_url=self.env["MODELMILL_REDIS_URL"], **self.given)

    def set_store_clock(self, seconds: float | None) -> None:
        """Sets the clock by which workers wait for the object store. None: it is the real time again."""
        clock = self.folder / "data" / "store-clock"
        if seconds is None:
            clock.unlink(missing_ok=True)
            return
        draft = clock.with_suffix(".draft")
        draft.write_text(str(seconds))
        draft.rename(clock)

    def failed(self, *jobs: Job) -> list[dict[str, Any]]:
        """The errors that the API shows of these jobs: they failed in BIE, and nothing else came of it."""
        shown = assert_recovered(self, jobs)
        errors = [shown[job.job_id]["error"] for job in jobs]
        assert [error and error["step"] for error in errors] == ["bie"] * len(jobs), errors
        return errors

    def results(self, job: Job) -> set[str]:
        """The objects that a stage that failed in BIE has left, but for its log."""
        keys = {info.key for info in self.container.objects.list(object_keys.job(job.job_id))}
        return {key for key in keys if "bie" in key} - {object_keys.log(job.job_id, Stage.BIE)}


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A disk of this size at path. Only root can mount one: skips for others, but fails in CI."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        reason = f"a small disk cannot be mounted here (that takes root): {mounted.stderr.strip()}"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
