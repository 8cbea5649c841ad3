"""Delays between attempts, and the number of ends after which a worker has failed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from app.kit.backoff import GrowingPause

PAUSE, LINK_PAUSE = GrowingPause(1.0, 60.0), GrowingPause(1.0, 30.0)
"""Pauses of a worker, and of the connection to the web, in seconds."""
SETTLED_S = 60.0
"""After a worker has run this long, in seconds, the next pause is the first one again."""
WITHIN_S = 60.0
TOO_OFTEN = 3
"""This many ends within WITHIN_S make a worker FAILED."""
JITTER = 0.3


@dataclass(frozen=True)
class FailureCounter:
    """Counts the recent ends of one worker."""

    times: tuple[float, ...] = ()
    """When it has ended within the last WITHIN_S, in monotonic seconds."""
    pause_s: float = 0.0
    """Seconds to wait before the next start."""

    def after(self, *, started: float, now: float) -> FailureCounter:
        """Returns the counter after an end.

        Args:
            started: when the process was started, in monotonic seconds.
            now: the same clock.
        """
        recent = tuple(time for time in (*self.times, now) if now - time < WITHIN_S)
        return FailureCounter(recent, PAUSE.after(0.0 if now - started >= SETTLED_S else self.pause_s))

    def after_refusal(self) -> FailureCounter:
        """Returns the counter after a start that failed, which makes pauses longer, but counts as no end."""
        return replace(self, pause_s=PAUSE.after(self.pause_s))

    @property
    def are_too_many(self) -> bool:
        return len(self.times) >= TOO_OFTEN


class Backoff:
    """Pauses between attempts to reach the web: 1 s, doubling to 30 s, with jitter, so that not all nodes connect at
    once."""

    def __init__(self) -> None:
        self._pause_s = 0.0

    def next_s(self) -> float:
        self._pause_s = LINK_PAUSE.after(self._pause_s)
        return self._pause_s * random.uniform(1, 1 + JITTER)  # noqa: S311  # no secret

    def reset(self) -> None:
        self._pause_s = 0.0
