"""Times in which the source gives no picture and is opened again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.edge.video.runner.plan_metrics import PlanMetrics

NO_SIGNAL = "no_signal"
"""Flag of a job in such a time."""


class Outage:
    """note: for the job's events. While one lasts nothing is measured. For one thread; silent_s and flags for any."""

    def __init__(
        self, measuring: PlanMetrics, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._measuring, self._note, self._clock = measuring, note, clock
        self._last = clock()
        self._lasts = False

    @property
    def silent_s(self) -> float | None:
        """Since the last picture; None: they come."""
        return self._clock() - self._last if self._lasts else None

    @property
    def flags(self) -> list[str]:
        return [NO_SIGNAL] if self._lasts else []

    def failed(self, why: str) -> None:
        """The source was to be read, and was not."""
        if self._lasts:
            return
        self._lasts = True
        self._measuring.pause()
        self._note(f"No signal: {why}. The source is opened again until it is back.")

    def frame(self) -> None:
        """There is a picture."""
        now = self._clock()
        if self._lasts:
            self._lasts = False
            self._measuring.resume()
            self._note(f"The signal is back, after {now - self._last:.0f} s.")
        self._last = now
