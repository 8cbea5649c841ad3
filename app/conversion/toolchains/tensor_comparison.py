"""The distance of two tensors.

SNR (dB) = 10 log10(sum x² / sum (x-y)²) with x the reference; onnxruntime's quantization debugger computes the
same number. For two tensors that are equal or closer than SNR_CAP_DB, SNR_CAP_DB is reported, so that a mean over
samples stays finite. A reference of zero energy is *silent*: it has no SNR unless the other is zero, too.

This module has the formulas and their checks. It does not handle sessions, models or files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.errors import NotFinite

Array = npt.NDArray[Any]

SNR_CAP_DB = 120.0
"""Below the resolution of float32 (about 140 dB), and above the SNR of any difference that is not just rounding."""
TINY_ENERGY = 1e-25
"""Below this, float32 sums of squares underflow and are computed again in float64."""


@dataclass(frozen=True)
class TensorComparison:
    """One tensor of one sample. snr_db and cosine are None if they have no meaning (silent, other shape)."""

    snr_db: float | None
    cosine: float | None
    max_abs: float
    exact: bool = False
    silent: bool = False
    same_shape: bool = True
    is_uncounted: bool = False
    """Both are next to nothing beside other samples, so its SNR and cosine were left out."""
    is_beside_zero: bool = False
    """The reference is all zero, and its SNR that of next to nothing beside the other's values."""


def compare(reference: Array, actual: Array, *, tensor: str = "", sample: str = "") -> TensorComparison:
    """Compares two arrays of any shape and numeric type, flattened.

    Args:
        tensor: the name of the tensor, for error messages.
        sample: the name of the sample, for error messages.

    Returns:
        The comparison; if the shapes differ, it states only that.

    Raises:
        NotFinite: An array contains NaN or infinity.
    """
    if reference.shape != actual.shape:
        return TensorComparison(None, None, 0.0, same_shape=False)
    if reference.size == 0:
        return TensorComparison(SNR_CAP_DB, 1.0, 0.0, exact=True)
    x, y = _flatten(reference), _flatten(actual)
    energy, other, product, noise = _compute_sums(x, y)
    if not all(map(math.isfinite, (energy, other, noise))) or min(energy, other) < TINY_ENERGY:
        require_finite(reference, tensor, sample)
        require_finite(actual, tensor, sample)
        x, y = x.astype(np.float64), y.astype(np.float64)
        energy, other, product, noise = _compute_sums(x, y)
    exact = bool(np.array_equal(x, y))
    max_abs = 0.0 if exact else float(np.max(np.abs(x - y)))
    return TensorComparison(
        _compute_snr_db(energy, noise), _compute_cosine(energy, other, product), max_abs, exact, silent=energy == 0.0
    )


def compare_all(
    sample: str, reference: Mapping[str, Array], actual: Mapping[str, Array]
) -> dict[str, TensorComparison]:
    """Compares every tensor of `reference` with the one of the same name.

    Raises:
        NotFinite: A value is not finite.
    """
    return {name: compare(array, actual[name], tensor=name, sample=sample) for name, array in reference.items()}


def require_finite(array: Array, tensor: str, sample: str) -> None:
    """Checks that every value is finite.

    Raises:
        NotFinite: It names tensor and sample.
    """
    if array.dtype.kind not in "fc" or bool(np.isfinite(array).all()):
        return
    kind = "NaN" if bool(np.isnan(array).any()) else "infinity"
    raise NotFinite(
        f"tensor {tensor!r} holds {kind} for sample {sample!r}",
        hint="Run the float model on this sample: a division by zero, a log of zero, an overflow or a broken weight "
        "makes such values, and so does preprocessing that does not fit the model.",
        detail={"tensor": tensor, "sample": sample, "kind": kind},
    )


def is_finite(array: Array) -> bool:
    """Returns whether every value is finite; usually by one dot product instead of a boolean array."""
    if array.dtype.kind != "f":
        return True
    flat = array.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(np.dot(flat, flat))
    return math.isfinite(energy) or bool(np.isfinite(flat).all())


def compute_energy(values: Array, others: Array | None = None) -> float:
    """Returns the sum of the squares of the values, or of their differences from as many others; infinity or NaN if one
    is not finite. In 32 bits where these are enough for it, which takes a thirtieth of the time."""
    flats = [_flatten(array) for array in (values, others) if array is not None]
    energy = _sum_squares(*flats)
    return energy if TINY_ENERGY < energy < math.inf else _sum_squares(*(flat.astype(np.float64) for flat in flats))


def _sum_squares(x: Array, y: Array | None = None) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        difference = x if y is None else x - y
        return float(np.dot(difference, difference))


def list_judged_names(arrays: Mapping[str, Array]) -> list[str]:
    """Returns the names of the arrays with real numbers; of all if there are none, as of a model whose only output is a
    class."""
    return [name for name, array in arrays.items() if array.dtype.kind in "fc"] or list(arrays)


def snr_db(reference: Array, actual: Array) -> float | None:
    """Returns the SNR in dB, at most SNR_CAP_DB; None if the reference is silent and the other array is not."""
    return compare(reference, actual).snr_db


def significant(value: float) -> float:
    """Rounds to 6 significant digits, so that reports stay readable."""
    return float(f"{value:.6g}")


def _flatten(array: Array) -> Array:
    flat = array.reshape(-1)
    return flat if flat.dtype == np.float32 else flat.astype(np.float64)


def _compute_sums(x: Array, y: Array) -> tuple[float, float, float, float]:
    """Returns sum x², sum y², sum xy, sum (x-y)²."""
    with np.errstate(over="ignore", invalid="ignore"):
        difference = x - y
        return float(np.dot(x, x)), float(np.dot(y, y)), float(np.dot(x, y)), float(np.dot(difference, difference))


def _compute_snr_db(energy: float, noise: float) -> float | None:
    if noise == 0.0:
        return SNR_CAP_DB
    if energy == 0.0:
        return None
    return min(SNR_CAP_DB, 10.0 * math.log10(energy / noise))


def _compute_cosine(energy: float, other: float, product: float) -> float | None:
    if energy == 0.0 and other == 0.0:
        return 1.0
    if energy == 0.0 or other == 0.0:
        return None
    return max(-1.0, min(1.0, product / math.sqrt(energy) / math.sqrt(other)))
