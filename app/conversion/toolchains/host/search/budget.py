"""The time budget of a search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Seconds from the moment it is made.

    Args:
        clock: Seconds that only rise; tests bring their own.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    def limit(self, seconds: float) -> None:
        """Be no longer than that."""
        self.seconds = min(self.seconds, seconds)

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.begun

    def allows(self, share: float) -> bool:
        """Is less than this share (0..1) of it used up?"""
        return self.elapsed_s < share * self.seconds
