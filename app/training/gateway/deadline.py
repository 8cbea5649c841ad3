"""When a call has to be over, for each thread its own."""

from __future__ import annotations

import threading
import time


class Deadline(threading.local):
    """Until when the call of this thread must have ended."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._end_s: float | None = None

    def __enter__(self) -> None:
        self._end_s = time.monotonic() + self._timeout_s

    def __exit__(self, *_: object) -> None:
        self._end_s = None

    @property
    def left_s(self) -> float:
        """Outside of a call, in which a log is read chunk by chunk: for each chunk the whole time."""
        return self._timeout_s if self._end_s is None else max(self._end_s - time.monotonic(), 0.01)

    @property
    def has_passed(self) -> bool:
        return self._end_s is not None and time.monotonic() > self._end_s
