"""Samples on which an output is nearly silent in float and in 8 bits, such as a mask of people where none is. Pure.

Their SNR is the ratio of two numbers next to nothing, so they are left out of its mean and minimum. A sample on which
int8 has an output where float has none counts like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from app.conversion.toolchains.host.inputs import Array

SILENT_SHARE = 1e-6
"""An output is nearly silent if its power is below this share of the median over the samples: 60 dB below."""


def compute_power(values: Array) -> float:
    """Returns the mean square; 0 without values, infinity or NaN if one is not finite."""
    flat = values.reshape(-1)
    flat = flat if flat.dtype == np.float32 else flat.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(flat, flat)) / max(1, flat.size)


def compute_silent_powers(powers: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Returns the power below which each output is nearly silent.

    Args:
        powers: of the float model's output, by its name, a number for each sample.
    """
    finite = {name: [value for value in values if math.isfinite(value)] for name, values in powers.items()}
    return {name: SILENT_SHARE * median(values) for name, values in finite.items() if values}


def is_silent_in_both(expected: float, actual: float, silent_power: float) -> bool:
    """Returns whether a sample is left out.

    Args:
        expected: power of the float model's output.
        actual: power of the other model's output.
        silent_power: See `compute_silent_powers`.
    """
    return expected < silent_power and actual < silent_power
