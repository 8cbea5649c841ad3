"""How long to wait before the next attempt, and when a worker that keeps ending has failed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

FIRST_S, LONGEST_S = 1.0, 60.0
SETTLED_S = 60.0
"""A worker that ran this long starts over with the first pause."""
WITHIN_S = 60.0
TOO_OFTEN = 3
"""This many ends within WITHIN_S make a worker FAILED."""
LONGEST_LINK_S = 30.0
JITTER = 0.3


@dataclass(frozen=True)
class FailureCounter:
    """The recent ends of one worker."""

    times: tuple[float, ...] = ()
    """When it ended within the last WITHIN_S, in monotonic seconds."""
    pause_s: float = 0.0
    """How long to wait before the next start."""

    def after(self, *, started: float, now: float) -> FailureCounter:
        """The counter after an end. started, now: monotonic seconds."""
        recent = tuple(time for time in (*self.times, now) if now - time < WITHIN_S)
        return FailureCounter(recent, self._next(has_settled=now - started >= SETTLED_S))

    def after_refusal(self) -> FailureCounter:
        """The counter after a start that failed: longer pauses, but no end."""
        return replace(self, pause_s=self._next(has_settled=False))

    @property
    def are_too_many(self) -> bool:
        return len(self.times) >= TOO_OFTEN

    def _next(self, *, has_settled: bool) -> float:
        return FIRST_S if has_settled or not self.pause_s else min(LONGEST_S, 2 * self.pause_s)


class Backoff:
    """Pauses between attempts to reach the web: 1 s, doubling to 30 s, plus jitter, lest all nodes come at once."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def next_s(self) -> float:
        now_s, self._next_s = self._next_s, min(LONGEST_LINK_S, 2 * self._next_s)
        return now_s * random.uniform(1, 1 + JITTER)  # noqa: S311  # no secret

    def reset(self) -> None:
        self._next_s = FIRST_S
