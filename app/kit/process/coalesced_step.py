"""A step that many threads ask for and one at a time carries out."""

from __future__ import annotations

import threading
from collections.abc import Callable


class CoalescedStep:
    """Runs a step for all who ask while it runs, once more after it: what became due meanwhile may have been missed.

    Args:
        step: what it raises reaches the caller whose thread runs it.
    """

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step
        self._room, self._due = threading.Lock(), threading.Event()

    def run(self) -> None:
        """Runs the step, unless another thread does: then that one runs it again, and this returns at once."""
        self._due.set()
        while self._due.is_set() and self._room.acquire(blocking=False):
            try:
                self._due.clear()
                self._step()
            finally:
                self._room.release()
