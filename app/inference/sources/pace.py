"""Which frames are given, and when."""

from __future__ import annotations

import math
from collections.abc import Callable

LATE_S = 1.0
"""A reader that is later than that does not catch up: the pass goes on from where it is."""
OLD_S = 0.5
"""A live frame that comes later than that is old."""
ROUNDING = 1e-6


class Pace:
    """At most so many frames a second.

    What has a time of its own (video) is thinned out by that time and given at that time; what has none (pictures) is
    given whole, evenly. What is live comes by itself, so nothing waits for it: it is thinned out, and what has become
    old while its reader was busy is left out, so that the reader keeps up.

    Args:
        fps: frames a second at most; 0: all of them, as fast as they are asked for.
        clock: in seconds, steady.
        sleep: is given seconds.
        live: it comes by itself.
    """

    def __init__(
        self, fps: float, clock: Callable[[], float], sleep: Callable[[float], object], *, live: bool = False
    ) -> None:
        self._fps, self._clock, self._sleep, self._live = fps, clock, sleep, live
        self._start: float | None = None
        self._slot = -1
        self._given = 0
        self._lead = -math.inf

    def begin(self) -> None:
        """Starts a pass."""
        self._start, self._slot, self._given, self._lead = None, -1, 0, -math.inf

    def change(self, fps: float) -> None:
        """From the next frame on. What has a time of its own keeps it; what has none is counted anew."""
        if fps == self._fps:
            return
        if self._slot < 0:
            self._start = None
        self._fps, self._slot, self._given = fps, -1, 0

    def wants(self, at: float | None) -> bool:
        """Is the frame of that time one of those that are given?"""
        now = self._elapsed() if self._live else at
        if self._live and at is not None and self._is_old(at):
            return False
        if self._fps <= 0 or now is None:
            return True
        slot = math.floor((now + ROUNDING) * self._fps)
        if slot <= self._slot:
            return False
        self._slot = slot
        return True

    def wait(self, at: float | None) -> None:
        """Return when the frame is due."""
        if self._fps <= 0 or self._live:
            return
        due = self._given / self._fps if at is None else at
        self._given += 1
        early = due - self._elapsed()
        if early > 0:
            self._sleep(early)
        elif early < -LATE_S and self._start is not None:
            self._start -= early

    def _is_old(self, at: float) -> bool:
        """Measured against the frame that came soonest, whose delay is taken for the shortest."""
        lead = at - self._elapsed()
        self._lead = max(self._lead, lead)
        return self._lead - lead > OLD_S

    def _elapsed(self) -> float:
        now = self._clock()
        if self._start is None:
            self._start = now
        return now - self._start
