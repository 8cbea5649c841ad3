"""Numbers as integers: scale and zero point of a range, and weights in 16 bits. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.fused_activations import UNBOUNDED
from app.conversion.toolchains.host.inputs import Array

INT8, UINT16, INT16, INT32 = np.int8, np.uint16, np.int16, np.int32
HEADROOM = 4.0
"""A range of 16 bits is made this much wider: pictures of other scenes exceed it, what is cut off costs more there than
all that 8 bits round, and 65,536 levels can spare two bits."""
SCALE_MIN = 1e-30
"""Of a tensor that is always zero; a scale of zero is no number to divide by."""


def activation_parameters(limits: Range, kind: Any, bounds: Range = UNBOUNDED) -> tuple[float, int]:
    """Scale and zero point of a range in uint8, int8 or uint16; zero is held exactly.

    Args:
        limits: Lowest and highest value.
        kind: The type of the integers.
        bounds: What rounding is to cut at, because nothing else does.
    """
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    if kind is UINT16:
        low, high = low * HEADROOM, high * HEADROOM
    low, high = min(max(low, bounds[0]), 0.0), max(min(high, bounds[1]), 0.0)
    levels = np.iinfo(kind)
    scale = (high - low) / float(int(levels.max) - int(levels.min))
    if not np.isfinite(scale) or scale < SCALE_MIN:
        return 1.0, int(np.clip(0, levels.min, levels.max))
    zero = int(np.clip(round(levels.min - low / scale), levels.min, levels.max))
    return scale, zero


def quantized_values(values: Array, scale: float, zero: int, kind: Any) -> Array:
    """A constant as integers.

    Args:
        values: Of the constant.
        scale: Between two neighboring integers.
        zero: The integer that is zero.
        kind: The type of the integers.
    """
    levels = np.iinfo(kind)
    integers: Array = np.clip(np.rint(values.astype(np.float64) / scale) + zero, levels.min, levels.max).astype(kind)
    return integers


def quantized_weight(values: Array, axis: int | None, kind: Any) -> tuple[Array, Array]:
    """Symmetric integers and the scale of each channel along `axis`; one scale for all where that is None."""
    if axis is None:
        flat, single = quantized_weight(values.reshape(1, -1), 0, kind)
        return flat.reshape(values.shape), single.reshape(())
    others = tuple(a for a in range(values.ndim) if a != axis % values.ndim)
    most = np.abs(values).max(axis=others) if values.size else np.zeros(values.shape[axis])
    top = float(np.iinfo(kind).max)
    scale = np.maximum(most / top, SCALE_MIN).astype(np.float32)
    shape = [1] * values.ndim
    shape[axis % values.ndim] = scale.size
    integers: Array = np.clip(np.rint(values / scale.reshape(shape)), -top, top).astype(kind)
    return integers, scale
