"""Samples on which an output is nearly silent in float and in 8 bits, such as a mask of people where none is. Pure.

Their SNR is the ratio of two numbers next to nothing, so they are left out of its mean and minimum. A sample on which
int8 has an output where float has none counts like any other. Where float is exactly zero, as after a ReLU, noise is
held against the power below which an output is nearly silent, since the ratio to zero is no number.

A sample with a weak output counts in the mean as it is. Only for the floor, which no sample may be below, its noise is
held against the power below which an output is weak: 8 bits have a few levels for such a signal, and noise of a
thousandth of the usual power, which the floor allows there, shows nothing that float does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.tensor_comparison import compute_energy

SILENT_SHARE = 1e-6
"""An output is nearly silent if its power is below this share of the median of the samples with any: 60 dB below."""
WEAK_SHARE = 1e-2
"""An output is weak if its power is below this share of that median: 20 dB below."""


def compute_power(values: Array) -> float:
    """Returns the mean square; 0 without values, infinity or NaN if one is not finite."""
    return compute_energy(values) / max(1, values.size)


def compute_silent_powers(powers: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Returns the power below which each output is nearly silent, by its name.

    Samples on which it is exactly zero say nothing of its usual power. An output that is so on all samples has none.

    Args:
        powers: of the float model's output, by its name, a number for each sample.
    """
    signals = {name: [value for value in values if 0.0 < value < math.inf] for name, values in powers.items()}
    return {name: SILENT_SHARE * median(values) for name, values in signals.items() if values}


def is_silent_in_both(expected: float, actual: float, silent_power: float) -> bool:
    """Returns whether a sample is left out: both are nearly silent, or all zero where no sample has a signal.

    Args:
        expected: power of the float model's output.
        actual: power of the other model's output.
        silent_power: See `compute_silent_powers`; 0 if there is none.
    """
    return (expected < silent_power and actual < silent_power) or expected == actual == 0.0


def compute_snr_beside_zero(actual: float, silent_power: float) -> float | None:
    """Returns the SNR in dB of a sample on which the float model's output is exactly zero and the other one's is not.

    Args:
        actual: power of the other model's output, all of it noise.
        silent_power: See `compute_silent_powers`, 0 if there is none; it is taken for the signal.

    Returns:
        At most 0, or None if no other sample shows how large a signal is.
    """
    return 10.0 * math.log10(silent_power / actual) if 0.0 < silent_power <= actual < math.inf else None


def compute_weakness_db(expected: float, silent_power: float) -> float:
    """Returns by how many dB an output is weaker than one that is not weak; 0 for one that is not.

    Args:
        expected: power of the float model's output.
        silent_power: See `compute_silent_powers`; 0 if there is none.
    """
    weak_power = silent_power * (WEAK_SHARE / SILENT_SHARE)
    return 10.0 * math.log10(weak_power / max(expected, silent_power)) if 0.0 < expected < weak_power else 0.0
