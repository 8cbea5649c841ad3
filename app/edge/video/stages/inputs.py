"""What a stage is given, checked: each raises BadRequest, naming the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.prediction import Picture
from app.kit.errors import BadRequest

MAX_BOXES = 4096


def picture_of(inputs: Mapping[str, Any], name: str = "image") -> Picture:
    picture = inputs.get(name)
    if not isinstance(picture, np.ndarray):
        raise BadRequest(f"The field {name} is missing: a picture.")
    return picture


def clip_of(inputs: Mapping[str, Any], name: str = "clip") -> list[Picture]:
    clip = inputs.get(name)
    if not isinstance(clip, list | tuple) or not clip or not all(isinstance(each, np.ndarray) for each in clip):
        raise BadRequest(f"The field {name} is missing: pictures, oldest first.")
    return list(clip)


def boxes_of(inputs: Mapping[str, Any], name: str = "bbox") -> npt.NDArray[np.float64]:
    """N×4, x1 ≤ x2 and y1 ≤ y2."""
    given = inputs.get(name)
    if not isinstance(given, list) or len(given) > MAX_BOXES:
        raise BadRequest(f"The field {name} is to be a list of up to {MAX_BOXES} boxes.")
    boxes = _numbers(given, name, "[[x1, y1, x2, y2], …]").reshape(-1, 4) if given else np.empty((0, 4))
    if len(boxes) != len(given):
        raise BadRequest(f"The field {name} is to be [[x1, y1, x2, y2], …].")
    corners = boxes.reshape(-1, 2, 2)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def scores_of(inputs: Mapping[str, Any], count: int, name: str = "prob") -> list[float]:
    """So many; ones where there are none."""
    given = inputs.get(name)
    if given is None:
        return [1.0] * count
    if not isinstance(given, list) or len(given) != count:
        raise BadRequest(f"The field {name} is to be a list of {count} numbers, one for each box.")
    return [float(value) for value in _numbers(given, name, "[p, …]").ravel()] if given else []


def _numbers(given: list[Any], name: str, form: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(given)
        whole = array.dtype.kind in "iuf" and bool(np.isfinite(array).all())
    except (ValueError, TypeError, OverflowError):
        whole = False
    if not whole or array.size % (4 if array.ndim == 2 else 1) or (array.ndim == 2 and array.shape[1] != 4):
        raise BadRequest(f"The field {name} is to be {form}, of numbers.")
    return array.astype(np.float64)
