"""A thread that goes on: what it does is done again and again, and a fault of it is logged and not its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Repeating:
    """Calls `step` every `every_s`, until closed. step has no right to raise, but it may."""

    def __init__(self, name: str, step: Callable[[], None], *, every_s: float) -> None:
        self.name = name
        self.step = step
        self.every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns when the step under way is over."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self.step()
            except Exception:
                logger.exception("The thread %s has met a fault and goes on", self.name)
            if self._stopping.wait(self.every_s):
                return
