"""Stops using something for a while after too many consecutive failures. Pure."""

from __future__ import annotations

import math

from app.kit.backoff import GrowingPause


class CircuitBreaker:
    """Opens for a pause after a number of consecutive failures; each further failure opens it again.

    After its pause it is on trial: it is closed, but the next failure opens it at once. A success forgets all failures.
    Times are seconds of a monotonic clock. Several threads need a lock.
    """

    def __init__(self, *, errors: int, pause_s: float, growth: float = 1.0, most_pause_s: float = math.inf) -> None:
        """Creates a closed breaker.

        Args:
            errors: consecutive failures that open it.
            pause_s: seconds that it stays open.
            growth: factor by which each further failure multiplies the pause.
            most_pause_s: the longest pause.
        """
        self._errors, self._pause = errors, GrowingPause(pause_s, most_pause_s, growth)
        self._pause_s = 0.0
        self.failures = 0
        """Consecutive failures."""
        self._closed_at = -math.inf

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.has_opened:
            self._pause_s = self._pause.after(self._pause_s)
            self._closed_at = now + self._pause_s

    @property
    def has_opened(self) -> bool:
        """Returns whether it has opened since the last success."""
        return self.failures >= self._errors

    def succeeded(self) -> None:
        self.failures, self._pause_s, self._closed_at = 0, 0.0, -math.inf

    def left_s(self, now: float) -> float:
        """Returns the seconds until it closes; 0 if it is closed."""
        return max(0.0, self._closed_at - now)
