"""A thread that repeats its work; an exception is logged and does not end it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class PeriodicThread:
    """Calls `step` repeatedly until closed.

    Args:
        name: the name of the thread.
        step: should not raise, but may.
        every_s: the pause between two steps, in seconds.
        patience_s: how long closing waits for the current step; None: until it is over.
    """

    def __init__(
        self, name: str, step: Callable[[], object], *, every_s: float, patience_s: float | None = None
    ) -> None:
        self.name = name
        self._step, self._every_s, self._patience_s = step, every_s, patience_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(self._patience_s)

    def _run(self) -> None:
        while True:
            try:
                self._step()
            except Exception:  # a fault in one step must not stop the thread
                logger.exception("The thread %s has met a fault and goes on", self.name)
            if self._stopping.wait(self._every_s):
                return
