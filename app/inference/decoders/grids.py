"""The cells of feature maps, whose positions a model does not output."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from app.inference.preprocessing import Floats, Size


@lru_cache(maxsize=64)
def cells(columns: int, rows: int) -> Floats:
    """Returns column and row of every cell, row by row: N×2. Shared, so do not write to it."""
    grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).reshape(-1, 2).astype(np.float32)
    grid.flags.writeable = False
    return grid


def cell_count(size: Size, stride: int) -> int:
    """Returns how many whole cells of `stride` pixels an input of this width and height has."""
    return (size[0] // stride) * (size[1] // stride)


@lru_cache(maxsize=16)
def pyramid(size: Size, strides: Sequence[int]) -> tuple[Floats, Floats]:
    """Returns the cells of the maps of all strides, one after the other, and the stride of each: N×2, N×1. Do not write
    to them."""
    maps = [cells(size[0] // stride, size[1] // stride) for stride in strides]
    steps = [np.full((len(grid), 1), stride, np.float32) for grid, stride in zip(maps, strides, strict=True)]
    both = np.concatenate(maps), np.concatenate(steps)
    for array in both:
        array.flags.writeable = False
    return both


DISORDER = 0.25
"""If the right side is left of the left one in more than this share of boxes, they are offsets."""


def are_offsets(boxes: Floats) -> bool:
    """Returns whether N×4 values are offsets to prior boxes instead of corners."""
    return bool((boxes[:, 2] < boxes[:, 0]).mean() > DISORDER)


CENTRE_VARIANCE, SIDE_VARIANCE = 0.1, 0.2
"""Of SSD, which UltraFace and RetinaFace have taken over."""


def from_offsets(offsets: Floats, prior: Floats) -> Floats:
    """Converts offsets to prior boxes, N×4 each, to corners x1, y1, x2, y2.

    Args:
        prior: center and sides of each.
    """
    centre = prior[:, :2] + offsets[:, :2] * CENTRE_VARIANCE * prior[:, 2:]
    return corners_of(centre, prior[:, 2:] * np.exp(offsets[:, 2:] * SIDE_VARIANCE))


def corners_of(centre: Floats, sides: Floats) -> Floats:
    """Converts centers and sides, N×2 each, to corners x1, y1, x2, y2: N×4."""
    return np.concatenate([centre - sides / 2, centre + sides / 2], axis=1)
