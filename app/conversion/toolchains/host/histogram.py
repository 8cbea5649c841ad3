"""A histogram of constant size whose range grows by doubling, and two ways to derive a range from it.

onnxruntime's own collectors keep the bin width of the first sample, so an almost black first sample makes millions of
bins; here the number of bins is fixed and doubling the range merges neighbors exactly, so the order of the samples
matters little and memory not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BINS = 4096
"""Number of bins over [-limit, limit]. After the range is doubled, at least half of them are still in use."""
ENTROPY_LEVELS = 128
"""Number of levels of |x| in 8 bits."""
ENTROPY_STEP = 16
"""Bins between two candidate thresholds."""
ABSENT = 1e-9
"""Probability of what the 8-bit version does not have."""


class Histogram:
    """Counts of the values of one tensor over [-limit, limit], and the exact minimum and maximum."""

    def __init__(self) -> None:
        self.limit = 0.0
        self.counts: npt.NDArray[np.int64] = np.zeros(BINS, dtype=np.int64)
        self.lowest = 0.0
        self.highest = 0.0
        self._zeros = 0

    def add(self, array: Array) -> None:
        """Count the values of a float array of any shape; they must be finite."""
        flat = array.reshape(-1)
        if flat.size == 0:
            return
        low, high = float(flat.min()), float(flat.max())
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        reach = max(-low, high)
        if reach == 0.0:
            self._zeros += flat.size
            return
        self._grow(reach)
        with np.errstate(over="ignore", invalid="ignore"):  # the scale of the tiniest values is no float32
            places = flat.astype(np.float32, copy=False) * np.float32(BINS // 2 / self.limit)
            places += np.float32(BINS // 2)
            indices = places.astype(np.intp)
        np.clip(indices, 0, BINS - 1, out=indices)
        self.counts += np.bincount(indices, minlength=BINS)

    def merge(self, other: Histogram) -> None:
        """Add everything that another histogram has counted."""
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        self._zeros += other._zeros
        if other.limit == 0.0:
            return
        self._grow(other.limit)
        places = (np.arange(BINS) + 0.5 - BINS / 2) * (other.limit / self.limit) + BINS / 2
        self.counts += np.bincount(places.astype(np.int64), other.counts, BINS).astype(np.int64)

    def percentile(self, percent: float) -> tuple[float, float]:
        """Returns the range that contains `percent` of the values by magnitude, limited to the values seen."""
        magnitudes = self._count_magnitudes()
        total = int(magnitudes.sum())
        if total == 0:
            return self.lowest, self.highest
        index = int(np.searchsorted(np.cumsum(magnitudes), total * percent / 100.0))
        return self._cut(self.limit * (min(index, BINS // 2 - 1) + 1) / (BINS // 2))

    def entropy(self) -> tuple[float, float]:
        """Returns the range whose 8-bit version loses the least information (Kullback-Leibler), limited to the values
        seen.

        Source: S. Migacz, 8-bit inference with TensorRT, GTC 2017. The bin at zero is set to its neighbor, since
        otherwise the zeros that a ReLU makes would decide the range.
        """
        magnitudes = self._count_magnitudes().astype(np.float64)
        magnitudes[0] = magnitudes[1]
        if magnitudes.sum() == 0:
            return self.lowest, self.highest
        sizes = np.arange(ENTROPY_LEVELS, BINS // 2 + 1, ENTROPY_STEP)
        best = int(sizes[np.argmin(_compute_divergences(magnitudes, sizes))])
        return self._cut(self.limit * best / (BINS // 2))

    def _grow(self, reach: float) -> None:
        if self.limit == 0.0:
            self.limit = reach
        while self.limit < reach:
            middle = self.counts.reshape(BINS // 2, 2).sum(axis=1)
            self.counts = np.zeros(BINS, dtype=np.int64)
            self.counts[BINS // 4 : BINS // 4 + BINS // 2] = middle
            self.limit *= 2.0

    def _count_magnitudes(self) -> npt.NDArray[np.int64]:
        """Returns the counts of |x| over [0, limit] in BINS/2 bins."""
        half = BINS // 2
        folded: npt.NDArray[np.int64] = self.counts[half:] + self.counts[:half][::-1]
        folded[0] += self._zeros
        return folded

    def _cut(self, threshold: float) -> tuple[float, float]:
        return max(self.lowest, -threshold), min(self.highest, threshold)


def _compute_divergences(magnitudes: Array, sizes: npt.NDArray[np.int64]) -> Array:
    """Returns for each size the KL divergence of so many first bins, with outliers in the last one, from their 8-bit
    version, which spreads the sum of each level evenly over those of its bins that have values."""
    edges = np.arange(ENTROPY_LEVELS + 1) * sizes[:, None] // ENTROPY_LEVELS
    sums = np.diff(_add_up(magnitudes)[edges])
    filled = np.diff(_add_up(magnitudes > 0)[edges])
    inside, last = sums.sum(axis=1), magnitudes[sizes - 1]
    total = magnitudes.sum()
    outside = total - inside
    level = np.divide(sums, filled, out=np.zeros_like(sums), where=filled > 0)
    coarse = np.divide(level, inside[:, None], out=np.zeros_like(level), where=inside[:, None] > 0)
    of_last = np.where(last > 0, coarse[:, -1], ABSENT)
    fine = _add_up(_times_log(magnitudes))[sizes] - _times_log(last) + _times_log(last + outside)
    crossed = (sums * np.log(np.where(sums > 0, coarse, 1.0))).sum(axis=1)
    crossed += outside * np.log(np.where(of_last > 0, of_last, 1.0))
    return np.where(inside > 0, (fine - crossed) / total - np.log(total), np.inf)


def _add_up(values: npt.ArrayLike) -> Array:
    """Returns the sums of the first 0, 1, … values."""
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


def _times_log(values: Array) -> Array:
    return values * np.log(np.where(values > 0, values, 1.0))
