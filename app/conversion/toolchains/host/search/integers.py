"""Numbers as integers: scale and zero point of a range, and weights in 16 bits. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.fused_activations import UNBOUNDED
from app.conversion.toolchains.host.inputs import Array

INT8, UINT16, INT16, INT32 = np.int8, np.uint16, np.int16, np.int32
HEADROOM = 4.0
"""Ranges in 16 bits are widened by this factor, if the choice does not say otherwise: pictures of other scenes exceed
them, clipping costs more than all rounding to 8 bits, and 65,536 levels leave two bits to spare."""
SCALE_MIN = 1e-30
"""Scale of a tensor that is always zero, since dividing by zero is not possible."""


def activation_parameters(
    limits: Range, kind: Any, bounds: Range = UNBOUNDED, headroom: float = 1.0
) -> tuple[float, int]:
    """Returns scale and zero point of a range in uint8, int8 or uint16; zero is represented exactly.

    Args:
        limits: lowest and highest value.
        kind: the type of the integers.
        bounds: where rounding has to clip, since no operator does.
        headroom: by which the limits are multiplied first.
    """
    low, high = headroom * min(limits[0], 0.0), headroom * max(limits[1], 0.0)
    low, high = min(max(low, bounds[0]), 0.0), max(min(high, bounds[1]), 0.0)
    levels = np.iinfo(kind)
    scale = (high - low) / float(int(levels.max) - int(levels.min))
    if not np.isfinite(scale) or scale < SCALE_MIN:
        return 1.0, int(np.clip(0, levels.min, levels.max))
    zero = int(np.clip(round(levels.min - low / scale), levels.min, levels.max))
    return scale, zero


def quantize_values(values: Array, scale: float, zero: int, kind: Any) -> Array:
    """Returns a constant as integers.

    Args:
        values: of the constant.
        scale: distance of two neighboring integers.
        zero: the integer for zero.
        kind: the type of the integers.
    """
    levels = np.iinfo(kind)
    integers: Array = np.clip(np.rint(values.astype(np.float64) / scale) + zero, levels.min, levels.max).astype(kind)
    return integers


def quantize_weight(values: Array, axis: int | None, kind: Any) -> tuple[Array, Array]:
    """Returns symmetric integers and the scale of each channel along `axis`, or one scale for all if axis is None."""
    if axis is None:
        flat, single = quantize_weight(values.reshape(1, -1), 0, kind)
        return flat.reshape(values.shape), single.reshape(())
    others = tuple(a for a in range(values.ndim) if a != axis % values.ndim)
    most = np.abs(values).max(axis=others) if values.size else np.zeros(values.shape[axis])
    top = float(np.iinfo(kind).max)
    scale = np.maximum(most / top, SCALE_MIN).astype(np.float32)
    shape = [1] * values.ndim
    shape[axis % values.ndim] = scale.size
    integers: Array = np.clip(np.rint(values / scale.reshape(shape)), -top, top).astype(kind)
    return integers, scale
