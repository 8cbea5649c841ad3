"""The actors of `actors`, whose stages also know the words of `backend_stages`. CHAOS_S3_READ_TIMEOUT_S of the
environment says after how many seconds an S3 server counts as silent."""

from __future__ import annotations

import os
import time
from pathlib import Path

from app.kit.objects import s3_connection

s3_connection.READ_TIMEOUT_S = float(os.environ.get("CHAOS_S3_READ_TIMEOUT_S", s3_connection.READ_TIMEOUT_S))

from app.conversion.stages import runner, transfer_retry  # noqa: E402
from tests.harness.faults import actors  # noqa: E402

TICK_S = 0.02


class FileClock:
    """In place of the module `time` in `transfer_retry`: the time is the number in a file while a test keeps one there.

    So it does not depend on how busy the machine is.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def monotonic(self) -> float:
        try:
            return float(self._file.read_text())
        except FileNotFoundError:
            return time.monotonic()

    def sleep(self, pause_s: float) -> None:
        if not self._file.exists():
            time.sleep(pause_s)
            return
        end = self.monotonic() + pause_s
        while self.monotonic() < end:
            time.sleep(TICK_S)


transfer_retry.time = FileClock(actors.container.settings.data_dir / "store-clock")  # type: ignore[assignment]
runner.CHILD = "tests.harness.faults.backend_stages:run_stage"

__all__ = ["actors"]
