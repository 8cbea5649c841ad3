"""Searches that are given a time, and not a number of examples. What they try follows from a seed, which is printed.

MODELMILL_SEARCH_SEED repeats a search from that seed on; MODELMILL_SEARCH_TIMES makes all of them so many times longer.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import count

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

SEED = "MODELMILL_SEARCH_SEED"
TIMES = float(os.environ.get("MODELMILL_SEARCH_TIMES", "0.2"))
ROUND = 25
"""Examples of one seed."""


def seeds(seconds: float, *, least: int = 1) -> Iterator[int]:
    """One after another for so many seconds of the processor, and so many at least. The last one printed has failed."""
    first = int(os.environ.get(SEED) or random.SystemRandom().randrange(1 << 32))
    began = time.process_time()
    for number in count():
        if number >= least and time.process_time() - began > seconds * TIMES:
            return
        print(f"{SEED}={first + number}")
        yield first + number


def searched(
    *strategies: st.SearchStrategy[object], seconds: float
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """As hypothesis.given, in rounds, and as long as the time suffices for another."""

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        def search() -> None:
            for number in seeds(seconds):
                tried = settings(
                    max_examples=ROUND, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
                )(given(*strategies)(test))
                seed(number)(tried)()

        search.__name__, search.__qualname__, search.__doc__ = test.__name__, test.__qualname__, test.__doc__
        search.__module__ = test.__module__
        return search

    return decorate
