"""How sure a mean over a few pictures is. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

STUDENT_95: tuple[float, ...] = (
    *(12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13),
    *(2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04),
)
"""Two-sided quantiles of Student's t at 95 % for 1, 2, … degrees of freedom."""
NORMAL_95 = 1.96


def interval_of(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The 95 % interval of the mean; (None, None) of fewer than two values."""
    if len(values) < 2:
        return None, None
    freedom = len(values) - 1
    quantile = STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else NORMAL_95
    mean = statistics.fmean(values)
    half = quantile * statistics.stdev(values) / len(values) ** 0.5
    return mean - half, mean + half
