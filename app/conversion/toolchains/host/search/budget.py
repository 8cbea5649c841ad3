"""The time budget of a search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

TIMES, TIMES_OF_LARGE, LARGE_BYTES, SECONDS_LEAST = 14, 4, 50 << 20, 30.0
"""Of what calibrating and judging the first candidate takes, which is about 0.4 of a plain conversion: so long a search
goes on for a model up to and above LARGE_BYTES, and at least so many seconds."""
BETTER_SHARE = 0.5
"""Of that, for how long a better one of the same cost is looked for where one holds the goal."""


@dataclass
class Budget:
    """Seconds from the moment it is made.

    Args:
        clock: Seconds that only rise; tests bring their own.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    better_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    def settle(self, model_bytes: int, *, is_named: bool) -> None:
        """Once the first candidate is judged: where nobody has named a budget, it is a small multiple of that.

        Args:
            model_bytes: Of the float model.
            is_named: Somebody has.
        """
        usual_s = (TIMES_OF_LARGE if model_bytes > LARGE_BYTES else TIMES) * self.elapsed_s
        self.better_s = BETTER_SHARE * max(SECONDS_LEAST, usual_s)
        if not is_named:
            self.seconds = min(self.seconds, max(SECONDS_LEAST, usual_s))

    def allows_more_of_the_same(self) -> bool:
        """Is there time to look for what is better and costs no more?"""
        return self.elapsed_s < self.better_s

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.begun

    def allows(self, share: float) -> bool:
        """Is less than this share (0..1) of it used up?"""
        return self.elapsed_s < share * self.seconds
