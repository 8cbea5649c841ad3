"""Frames that got no result: when there are too many of them, the job is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.edge.video.runner.frame_context import FrameFailed

MOST_IN_A_ROW = 20
MOST_S = 30.0
NOTED_S = 60.0


class FailureBudget:
    """note: told of a stage's first, and of it again after a while. For one thread."""

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._note, self._clock = note, clock
        self._row = 0
        self._since = 0.0
        self._noted: dict[str, float] = {}
        self.frames = 0
        self.last = ""

    def good(self) -> None:
        self._row = 0

    def failed(self, failure: FrameFailed) -> str:
        """Why it cannot go on like this; empty: it can. What is no stage's fault ends nothing."""
        self.frames += 1
        self.last = str(failure)
        now = self._clock()
        if now - self._noted.get(failure.stage, -NOTED_S) >= NOTED_S:
            self._noted[failure.stage] = now
            self._note(f"Frames are dropped: {failure}")
        if not failure.is_fault:
            return ""
        self._since = now if self._row == 0 else self._since
        self._row += 1
        if self._row < MOST_IN_A_ROW and now - self._since < MOST_S:
            return ""
        row, self._row = self._row, 0
        return f"stage {failure.stage} has failed on {row} frames in a row: {failure.reason}"
