"""Methods that choose the range of an activation from its statistics. None of them is best for every tensor."""

from __future__ import annotations

import numpy as np

from app.conversion.toolchains.host.calibration import OF_NOTHING, Range
from app.conversion.toolchains.host.histogram import BINS, Array, Histogram
from app.conversion.toolchains.host.search.statistics import PartStatistics

METHODS = ("minmax", "p99.999", "mse", "mean", "p99.99", "entropy")
"""min-max over all pictures; percentiles; least squared error in 8 bits; mean of the pictures' extremes; least loss of
information in 8 bits."""
WIDE_METHOD = "extremes"
"""Method for activations in 16 bits: min-max, including altered pictures."""
UNIT_METHOD = "unit"
"""Method for outputs of a Softmax: 0 to 1, whatever was seen. On other samples one value may be far above it."""
CUTS = np.linspace(1.0, 0.2, 33)
"""Shares of a tensor's extremes that the least squared error method tries."""
LEVELS = 255
NEAR = 0.01


def range_of(statistics: PartStatistics, method: str) -> Range:
    """Returns the lowest and highest value to represent; zero is always between them.

    Raises:
        KeyError: The method does not exist.
    """
    if statistics.pictures == 0:
        return OF_NOTHING
    if method == UNIT_METHOD:
        return 0.0, 1.0
    low, high = min(statistics.low, 0.0), max(statistics.high, 0.0)
    if method in ("minmax", WIDE_METHOD):
        return low, high
    if method == "mean":
        return (min(statistics.sum_low / statistics.pictures, 0.0), max(statistics.sum_high / statistics.pictures, 0.0))
    if method == "mse":
        return least_squares(statistics.histogram, low, high)
    if method == "entropy":
        cut = statistics.histogram.entropy()
    else:
        cut = statistics.histogram.percentile(float({"p99.999": "99.999", "p99.99": "99.99"}[method]))
    return max(low, min(cut[0], 0.0)), min(high, max(cut[1], 0.0))


def are_near(one: Range, other: Range) -> bool:
    """Returns whether the ranges differ by less than a hundredth of the wider one."""
    width = max(one[1] - one[0], other[1] - other[0])
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= NEAR * width


def least_squares(histogram: Histogram, low: float, high: float) -> Range:
    """Returns the range with the least expected squared error in 8 bits: rounding inside, clipping outside."""
    centres = (np.arange(BINS) + 0.5 - BINS / 2) * (2 * histogram.limit / BINS)
    counts = histogram.counts.astype(np.float64)
    if counts.sum() == 0:
        return low, high
    lows = np.unique(CUTS * low) if low < 0 else np.zeros(1)
    highs = np.unique(CUTS * high) if high > 0 else np.zeros(1)
    above, below = _compute_excess(counts, centres, highs), _compute_excess(counts[::-1], -centres[::-1], -lows)
    steps = (highs[None, :] - lows[:, None]) / LEVELS
    rounded = counts.sum() - counts[BINS // 2]  # the zeros of a ReLU are represented exactly
    error = max(rounded, 1.0) * steps**2 / 12 + above[None, :] + below[:, None]
    row, column = np.unravel_index(int(np.argmin(error)), error.shape)
    return float(lows[row]), float(highs[column])


def _compute_excess(counts: Array, centres: Array, cuts: Array) -> Array:
    """Returns for each cut the sum of squared distances of all values above it.

    Args:
        centres: ascending.
    """
    moments = counts, counts * centres, counts * centres**2
    sums = [np.append(np.cumsum(moment[::-1])[::-1], 0.0) for moment in moments]
    of_none, of_one, of_two = (one[np.searchsorted(centres, cuts, side="right")] for one in sums)
    excess: Array = np.maximum(of_two - 2 * cuts * of_one + cuts**2 * of_none, 0.0)
    return excess
