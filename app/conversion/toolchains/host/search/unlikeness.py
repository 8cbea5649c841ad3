"""How different samples are. Frames of one clip are nearly the same: a few different ones judge better than many at
random, most of which are like one that has set the ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.host.search.alterations import sides_of

CELLS = 8
"""A picture is described by the means of this many cells in height and width."""
VALUES = 256
"""Number of evenly spaced values that describe an array that is not a picture."""

Looks = npt.NDArray[np.float32]
"""A row for each sample."""


def looks_of(samples: Iterable[SampleArrays]) -> Looks:
    """Returns a few numbers for each sample, which are near to each other for similar samples."""
    return np.array([np.concatenate([_look(array) for array in sample.arrays.values()]) for sample in samples])


def unlike(looks: Looks, places: Sequence[int], count: int) -> list[int]:
    """Returns this many of the indexes, each the farthest from those before it; the first is the farthest from all.

    Args:
        looks: as returned by `looks_of`.
        places: indexes of the samples to choose from.
        count: at most the number of places.
    """
    rows = looks[list(places)]
    chosen: list[int] = []
    left = np.array([np.linalg.norm(rows - row, axis=1).sum() for row in rows])
    while len(chosen) < count:
        place = int(left.argmax())
        away = np.linalg.norm(rows - rows[place], axis=1)
        left = np.minimum(left, away) if chosen else away
        chosen.append(place)
        left[chosen] = -1.0
    return [places[place] for place in chosen]


def _look(array: Array) -> Array:
    values: Array = array.astype(np.float32)
    for axis in sides_of(array) or ():
        bounds = np.arange(CELLS) * array.shape[axis] // CELLS
        sizes = np.diff(np.append(bounds, array.shape[axis]))
        values = np.add.reduceat(values, bounds, axis) / sizes.reshape([-1, *[1] * (array.ndim - 1 - axis)])
    flat = values.reshape(-1)
    return flat[np.arange(min(flat.size, VALUES)) * flat.size // max(1, min(flat.size, VALUES))]
