"""The confidence interval of a mean over a few pictures: a bootstrap, because single bad pictures skew SNR. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

STUDENT_95: tuple[float, ...] = (
    *(12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13),
    *(2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04),
)
"""Two-sided quantiles of Student's t at 95 % for 1, 2, … degrees of freedom."""
NORMAL_95 = 1.96
RESAMPLES, SEED = 2000, 20261126


def interval_of(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the 95 % interval of the mean; (None, None) for fewer than two values.

    The expanded percentile bootstrap (Hesterberg 2015): means of resamples lie too near to each other by √((n - 1) /
    n), and their spread is as unsure as Student's t says, so percentiles further out are taken.
    """
    return _interval_of(tuple(values))


@lru_cache(maxsize=1024)
def _interval_of(values: tuple[float, ...]) -> tuple[float | None, float | None]:
    """A search compares the same candidates again and again."""
    count = len(values)
    if count < 2:
        return None, None
    below = 100 * NormalDist().cdf(-_compute_quantile(count) * (count / (count - 1)) ** 0.5)
    places = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    means = np.sort(np.asarray(values, np.float64))[places].mean(axis=1)
    low, high = np.percentile(means, (below, 100 - below))
    return float(low), float(high)


def most_of(values: Sequence[float]) -> float:
    """Returns an upper bound of the mean by Student's t, for few values, of which no bootstrap is possible."""
    count = len(values)
    if count < 2:
        return np.inf
    return float(np.mean(values) + _compute_quantile(count) * np.std(values, ddof=1) / count**0.5)


def _compute_quantile(count: int) -> float:
    return STUDENT_95[count - 2] if count - 1 <= len(STUDENT_95) else NORMAL_95
