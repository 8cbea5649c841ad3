"""How long to wait after a failure: longer each time, up to a limit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MOST_POWER = 64
"""Of the growth, in a pause that is computed from the number of tries; any limit is reached long before."""


@dataclass(frozen=True)
class GrowingPause:
    """Grows from the first to the longest."""

    first_s: float
    longest_s: float
    growth: float = 2.0
    """By which each is multiplied for the next."""

    def after(self, pause_s: float = 0.0) -> float:
        """The pause that comes after this one, in seconds; 0 means that there was none."""
        return min(self.longest_s, self.growth * pause_s) if pause_s else self.first_s

    def of_try(self, tries: int) -> float:
        """The pause, in seconds, after so many pauses."""
        return min(self.longest_s, self.first_s * self.growth ** min(tries, MOST_POWER))
