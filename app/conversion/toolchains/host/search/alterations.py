"""Altered pictures: the given ones enlarged and darkened. Pure.

Frames of one clip are similar, and a candidate chosen on them scores lower on another scene. Altered pictures have
other sizes, contrasts and emptier areas, and so predict approximately how much lower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from app.conversion.toolchains.host.inputs import Array

CHANNELS = (1, 3, 4)
SIDE_MIN = 16
"""Least side of a picture in pixels; a smaller one is not enlarged."""
LEVELS, VALUES = 256, 2000
"""Number of different values in a channel of a picture at most, and about how many of its values are looked at."""
NEARER_SHARE, DARKER_SHARE = 0.35, 0.5
"""The share of each side that is enlarged to the whole picture, and the share of the brightness above black that is
kept."""
LEVELS_MIN = 16
"""With fewer steps between its darkest and its brightest value, a channel does not show how fine its steps are."""


def altered(arrays: Mapping[str, Array], alteration: str) -> dict[str, Array] | None:
    """Returns the inputs with every picture altered; None if none is a picture.

    Args:
        arrays: 1×C×H×W or 1×H×W×C for pictures, and any others.
        alteration: one of ALTERATIONS.
    """
    if not any(_is_picture(array) for array in arrays.values()):
        return None
    return {name: _alter(array, ALTERATIONS[alteration]) for name, array in arrays.items()}


def _alter(array: Array, alter: Callable[[Array, tuple[int, int]], Array]) -> Array:
    sides = sides_of(array)
    if sides is None:
        return array
    result: Array = np.ascontiguousarray(alter(array, sides)).astype(array.dtype)
    return result


def sides_of(array: Array) -> tuple[int, int] | None:
    """Returns the axes of height and width of an array with the shape of one picture; None for others."""
    if array.ndim != 4 or array.shape[0] != 1:
        return None
    for channel, sides in ((1, (2, 3)), (3, (1, 2))):
        if array.shape[channel] in CHANNELS and min(array.shape[side] for side in sides) >= SIDE_MIN:
            return sides
    return None


def _is_picture(array: Array) -> bool:
    """Returns whether it has the shape of a picture, and each channel as few values as 8 bits give: spectrograms have
    more."""
    sides = sides_of(array)
    if sides is None:
        return False
    rows = np.moveaxis(array, sides, (2, 3)).reshape(-1, array.shape[sides[0]] * array.shape[sides[1]])
    return all(len(np.unique(row[:: max(1, row.size // VALUES)])) <= LEVELS for row in rows)


def _enlarge(array: Array, sides: tuple[int, int]) -> Array:
    """Enlarges the middle by the nearest pixel."""
    for side in sides:
        size = array.shape[side]
        part = max(1, round(NEARER_SHARE * size))
        array = np.take(array, (size - part) // 2 + np.arange(size) * part // size, side)
    return array


def _darken(array: Array, sides: tuple[int, int]) -> Array:
    """Moves values towards the darkest value of each channel, in steps of the picture: a picture that was taken darker
    also has only values of 8 bits, which an input in 8 bits represents exactly."""
    channels = np.moveaxis(array, sides, (2, 3)).reshape(-1, array.shape[sides[0]], array.shape[sides[1]])
    steps = np.expand_dims(np.array([_step_of(one.reshape(-1)) for one in channels]), (0, *sides))
    darkest = array.min(axis=sides, keepdims=True)
    darker: Array = darkest + np.rint((array - darkest) * DARKER_SHARE / steps) * steps
    return darker


def _step_of(values: Array) -> float:
    """Returns the difference of neighboring levels of a channel."""
    levels = np.unique(values[:: max(1, values.size // VALUES)]).astype(np.float64)
    if levels.size < 2:
        return 1.0
    span, step = float(levels[-1] - levels[0]), float(np.diff(levels).min())
    return step if span >= LEVELS_MIN * step else span / (LEVELS - 1)


ALTERATIONS: Mapping[str, Callable[[Array, tuple[int, int]], Array]] = {"nearer": _enlarge, "darker": _darken}
