"""The time budget of a search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

TIMES, TIMES_OF_LARGE, LARGE_BYTES, SECONDS_LEAST = 14, 4, 50 << 20, 30.0
"""Length of a search as a multiple of the CPU time for calibrating and judging the first candidate (about 0.4 of a
plain conversion), for models up to LARGE_BYTES and above; and its least length in seconds of CPU time."""
SENSITIVITY_SHARE, SEARCH_SHARE = 0.6, 0.9
"""Shares of the budget at which measuring single tensors, and the search, end."""
BETTER_SHARE = 0.5
"""Share of the budget in which a better candidate at the same cost is searched once one reaches the goal."""


@dataclass
class Budget:
    """The seconds that a search may take, counted from its creation.

    A budget that nobody named is also one of CPU time, so the same search tries the same candidates on a busy machine.

    Args:
        clock: monotonic seconds, replaced in tests.
        cpu_clock: seconds of CPU time of all threads, replaced in tests.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    cpu_clock: Callable[[], float] = time.process_time
    cpu_seconds: float = field(default=inf, init=False)
    better_cpu_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._begun, self._cpu_begun = self.clock(), self.cpu_clock()

    def settle(self, model_bytes: int, *, is_named: bool) -> None:
        """Set the budget after the first candidate: if none was named, it is a multiple of the CPU time so far.

        Args:
            model_bytes: size of the float model.
            is_named: a budget was named.
        """
        usual_s = max(SECONDS_LEAST, (TIMES_OF_LARGE if model_bytes > LARGE_BYTES else TIMES) * self.cpu_s)
        self.better_cpu_s = BETTER_SHARE * usual_s
        if not is_named:
            self.cpu_seconds = usual_s

    def allows_more_of_the_same(self) -> bool:
        """Returns whether there is time to search for a better candidate at the same cost."""
        return self.cpu_s < self.better_cpu_s

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self._begun

    @property
    def cpu_s(self) -> float:
        """CPU time since its creation."""
        return self.cpu_clock() - self._cpu_begun

    @property
    def share(self) -> float:
        """Share of the budget that is used; 1 or more if it is exceeded."""
        return max(self.elapsed_s / self.seconds, self.cpu_s / self.cpu_seconds)

    def allows(self, share: float) -> bool:
        """Returns whether less than this share (0..1) is used."""
        return self.share < share
