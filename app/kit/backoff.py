"""Delays after failures that grow up to a limit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MOST_POWER = 64
"""Maximum exponent when a delay is computed from the number of attempts; every limit is reached long before."""


@dataclass(frozen=True)
class GrowingPause:
    """Grows from the first to the longest delay."""

    first_s: float
    longest_s: float
    growth: float = 2.0
    """The factor from one delay to the next."""

    def after(self, pause_s: float = 0.0) -> float:
        """Returns the delay after this one, in seconds; 0 means that there was none."""
        return min(self.longest_s, self.growth * pause_s) if pause_s else self.first_s

    def of_try(self, tries: int) -> float:
        """Returns the delay after this many delays, in seconds."""
        return min(self.longest_s, self.first_s * self.growth ** min(tries, MOST_POWER))
