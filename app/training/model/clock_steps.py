"""Steps of the wall clock: how long something has lasted although the clock was set meanwhile. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

LEAST = timedelta(seconds=30)
"""What differs less is a clock that is being adjusted, or a slow process."""
MOST_STEPS = 100


@dataclass(frozen=True)
class ClockStep:
    before: datetime
    """The last known time before it."""
    after: datetime
    """The first known time after it."""
    by: timedelta
    """Negative: the clock was set back."""


class ClockSteps:
    """The steps that one process has seen, by comparing the wall clock with one that nobody sets."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        self._steps: deque[ClockStep] = deque(maxlen=MOST_STEPS)

    def note(self, now: datetime, steady_s: float) -> ClockStep | None:
        """Compares the clocks; returns the step since the last time, if there was one.

        Args:
            now: By the wall clock.
            steady_s: By the other, in seconds.
        """
        last, self._last = self._last, (now, steady_s)
        if last is None:
            return None
        by = (now - last[0]) - timedelta(seconds=steady_s - last[1])
        if abs(by) < LEAST:
            return None
        step = ClockStep(last[0], now, by)
        self._steps.append(step)
        return step

    def elapsed(self, since: datetime, now: datetime) -> timedelta:
        """How long ago something was. A time that may be from before or from after a step back is taken as the later
        one, so that nothing is taken to have lasted longer than it has."""
        total = now - since
        for step in self._steps:
            is_before = since <= step.before if step.by > timedelta() else since < step.after or since > now
            if is_before:
                total -= step.by
        return max(total, timedelta())
