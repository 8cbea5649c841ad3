"""The time budget of a search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

TIMES, TIMES_OF_LARGE, LARGE_BYTES, SECONDS_LEAST = 14, 4, 50 << 20, 30.0
"""Length of a search as a multiple of the time for calibrating and judging the first candidate (about 0.4 of a plain
conversion), for models up to LARGE_BYTES and above; and its least length in seconds."""
BETTER_SHARE = 0.5
"""Share of the budget in which a better candidate at the same cost is searched once one reaches the goal."""


@dataclass
class Budget:
    """The seconds that a search may take, counted from its creation.

    Args:
        clock: monotonic seconds, replaced in tests.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    better_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    def settle(self, model_bytes: int, *, is_named: bool) -> None:
        """Set the budget after the first candidate: if none was named, it is a multiple of the time so far.

        Args:
            model_bytes: size of the float model.
            is_named: a budget was named.
        """
        usual_s = (TIMES_OF_LARGE if model_bytes > LARGE_BYTES else TIMES) * self.elapsed_s
        self.better_s = BETTER_SHARE * max(SECONDS_LEAST, usual_s)
        if not is_named:
            self.seconds = min(self.seconds, max(SECONDS_LEAST, usual_s))

    def allows_more_of_the_same(self) -> bool:
        """Returns whether there is time to search for a better candidate at the same cost."""
        return self.elapsed_s < self.better_s

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.begun

    def allows(self, share: float) -> bool:
        """Returns whether less than this share (0..1) is used up."""
        return self.elapsed_s < share * self.seconds
