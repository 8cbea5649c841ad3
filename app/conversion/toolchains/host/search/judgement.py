"""The judgement on unseen pictures: mean, fifth percentile, minimum, and the interval that holds the true mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FLOOR_DB = 10.0
"""Below it a picture counts as ruined, whatever the mean is."""
RESAMPLES, SEED = 2000, 20261124
BOOTSTRAP_FROM = 30
"""Pictures from which on the interval is resampled; below it Student's t is wider, as it must be."""
T_975 = (12.71, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27, 2.23, 2.21, 2.18, 2.17, 2.15, 2.14)
"""Student's t at 97.5 % for 1, 2, … degrees of freedom, rounded up; of more the last is taken, which is wider."""


@dataclass(frozen=True)
class Interval:
    """Holds the true mean with 95 %. Of a single picture nothing is known: low and high are None."""

    mean: float | None
    low: float | None
    high: float | None


def interval(values: npt.NDArray[np.float64]) -> Interval:
    """Of a mean over pictures; the same each time."""
    if values.size == 0:
        return Interval(None, None, None)
    mean = float(values.mean())
    if values.size == 1:
        return Interval(mean, None, None)
    if values.size < BOOTSTRAP_FROM:
        half = T_975[min(values.size - 2, len(T_975) - 1)] * float(values.std(ddof=1)) / math.sqrt(values.size)
        return Interval(mean, mean - half, mean + half)
    rng = np.random.default_rng(SEED)
    means = rng.choice(values, (RESAMPLES, values.size)).mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    return Interval(mean, float(low), float(high))
