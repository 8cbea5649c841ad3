"""Delays between attempts, and when a worker that keeps ending has failed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from app.kit.backoff import GrowingPause

PAUSE, LINK_PAUSE = GrowingPause(1.0, 60.0), GrowingPause(1.0, 30.0)
"""Of a worker, and of the connection to the web."""
SETTLED_S = 60.0
"""A worker that ran this long starts over with the first pause."""
WITHIN_S = 60.0
TOO_OFTEN = 3
"""This many ends within WITHIN_S make a worker FAILED."""
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
        return FailureCounter(recent, PAUSE.after(0.0 if now - started >= SETTLED_S else self.pause_s))

    def after_refusal(self) -> FailureCounter:
        """The counter after a start that failed: longer pauses, but no end."""
        return replace(self, pause_s=PAUSE.after(self.pause_s))

    @property
    def are_too_many(self) -> bool:
        return len(self.times) >= TOO_OFTEN


class Backoff:
    """Pauses between attempts to reach the web: 1 s, doubling to 30 s, plus jitter, lest all nodes come at once."""

    def __init__(self) -> None:
        self._pause_s = 0.0

    def next_s(self) -> float:
        self._pause_s = LINK_PAUSE.after(self._pause_s)
        return self._pause_s * random.uniform(1, 1 + JITTER)  # noqa: S311  # no secret

    def reset(self) -> None:
        self._pause_s = 0.0
