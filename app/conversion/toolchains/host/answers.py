"""What the outputs of models say that no decoder reads: masks, key points, lines of text. Pure, of one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.prediction import Box

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
Answer = Sequence[Box]


def class_map(outputs: Outputs) -> npt.NDArray[np.intp]:
    """The class of every pixel, H×W, of the last map of the outputs: of several channels the highest, of one whether it
    is above one half (of its logit, where its values leave 0..1)."""
    values = list(outputs.values())[-1].astype(np.float64)
    maps = values.reshape(-1, *values.shape[-2:])
    if len(maps) > 1:
        highest: npt.NDArray[np.intp] = maps.argmax(axis=0)
        return highest
    is_share = maps[0].min() >= -0.05 and maps[0].max() <= 1.05
    mask: npt.NDArray[np.intp] = (maps[0] > (0.5 if is_share else 0.0)).astype(np.intp)
    return mask


def key_points(outputs: Outputs) -> npt.NDArray[np.float64]:
    """Points x, y in 0..1 of the map, N×2: the peaks of heat maps, the peaks of two rows each, or rows y, x, score."""
    arrays = [values.astype(np.float64)[0] for values in outputs.values()]
    if len(arrays) == 2:
        places = [values.argmax(axis=-1) / values.shape[-1] for values in arrays]
        return np.stack(places, axis=-1)
    values = arrays[0]
    if values.shape[-1] == 3:
        points: npt.NDArray[np.float64] = values.reshape(-1, 3)[:, 1::-1]
        return points
    height, width = values.shape[-2:]
    peaks = values.reshape(len(values), -1).argmax(axis=1)
    return np.stack([peaks % width / width, peaks // width / height], axis=1)


def line_of_text(outputs: Outputs) -> tuple[int, ...]:
    """The characters' numbers, as connectionist temporal classification reads them: repeats are one, 0 is a blank."""
    values = next(iter(outputs.values()))
    best = values.reshape(-1, values.shape[-1]).argmax(axis=1)
    return tuple(int(label) for label, _ in groupby(best) if label)
