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
LAST_RESORT_S, LAST_RESORT_SHARE = 3600.0, 0.5
"""Seconds by the clock, and share of the stage's time limit, after which a search without a named budget ends, too."""


@dataclass
class Budget:
    """What a search may take, counted from its creation: seconds by the clock if they were named, otherwise CPU time,
    so that the same search tries the same candidates on a busy machine.

    Args:
        seconds: by the clock; None: none were named.
        last_resort_s: seconds by the clock after which a search without named ones ends, too.
        clock: monotonic seconds, replaced in tests.
        cpu_clock: seconds of CPU time of all threads, replaced in tests.
    """

    seconds: float | None
    last_resort_s: float = LAST_RESORT_S
    clock: Callable[[], float] = time.monotonic
    cpu_clock: Callable[[], float] = time.process_time
    cpu_seconds: float = field(default=inf, init=False)
    better_cpu_s: float = field(default=0.0, init=False)
    is_cut: bool = field(default=False, init=False)
    """Whether something was left out for lack of it: with more time, or on a faster machine, other candidates."""

    def __post_init__(self) -> None:
        self.resume(0.0, 0.0)

    def resume(self, elapsed_s: float, cpu_s: float) -> None:
        """Counts on from what was used before, by the clock and of CPU time."""
        self._begun, self._cpu_begun = self.clock() - elapsed_s, self.cpu_clock() - cpu_s

    def settle(self, model_bytes: int) -> None:
        """Set the budget after the first candidate: if none was named, it is a multiple of the CPU time so far.

        Args:
            model_bytes: size of the float model.
        """
        usual_s = max(SECONDS_LEAST, (TIMES_OF_LARGE if model_bytes > LARGE_BYTES else TIMES) * self.cpu_s)
        self.better_cpu_s = BETTER_SHARE * usual_s
        if self.seconds is None:
            self.cpu_seconds = usual_s

    def allows_more_of_the_same(self) -> bool:
        """Returns whether there is time to search for a better candidate at the same cost."""
        return self._note(self.cpu_s < self.better_cpu_s)

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self._begun

    @property
    def cpu_s(self) -> float:
        """CPU time since its creation."""
        return self.cpu_clock() - self._cpu_begun

    @property
    def clock_s(self) -> float:
        """Seconds by the clock that it ends after in any case."""
        return self.last_resort_s if self.seconds is None else self.seconds

    @property
    def share(self) -> float:
        """Share of the budget that is used; 1 or more if it is exceeded."""
        return max(self.elapsed_s / self.clock_s, self.cpu_s / self.cpu_seconds)

    @property
    def is_last_resort(self) -> bool:
        """Whether most of it was used by a busy machine: the clock, which was not named, is ahead of the CPU time."""
        return self.seconds is None and self.elapsed_s / self.clock_s > self.cpu_s / self.cpu_seconds

    @property
    def text(self) -> str:
        """What it is, for the log."""
        if self.seconds is not None:
            return f"at most {self.seconds:g} s by the clock"
        if self.cpu_seconds == inf:
            return "a multiple of the first candidate's CPU time"
        return f"at most {self.cpu_seconds:.0f} s of CPU time"

    def allows(self, share: float) -> bool:
        """Returns whether less than this share (0..1) is used."""
        return self._note(self.share < share)

    def _note(self, is_allowed: bool) -> bool:
        self.is_cut |= not is_allowed
        return is_allowed
