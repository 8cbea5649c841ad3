"""Sizes of pictures, and boxes, key points and masks that are scaled with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.edge.media.picture_sizes import Size
from app.inference.prediction import Picture
from app.video.model.kinds import Type
from app.video.model.plan import RESOLUTIONS

Ratio = tuple[float, float]
"""The factors of x and y."""
SAME: Ratio = (1.0, 1.0)


def fit_size(source: Size, resolution: str, *, even: bool = False) -> Size:
    """Returns the largest size with the source's aspect ratio that fits into the resolution, at most the source.

    Args:
        even: makes both sides even, as H264 requires.
    """
    width, height = RESOLUTIONS[resolution]
    ratio = min(1.0, width / source[0], height / source[1])
    step = 2 if even else 1
    sides = [max(step, round(side * ratio) // step * step) for side in source]
    return sides[0], sides[1]


def in_colour(picture: Picture) -> Picture:
    """Returns the picture as H×W×3, also a gray one."""
    return picture if picture.ndim == 3 else np.repeat(picture[:, :, None], 3, axis=2)


def ratio_of(source: Size, target: Size) -> Ratio:
    return target[0] / source[0], target[1] / source[1]


def scale_boxes(boxes: Any, ratio: Ratio) -> list[list[float]]:
    """Returns [[x1, y1, x2, y2], …] with each corner scaled."""
    x, y = ratio
    return [[box[0] * x, box[1] * y, box[2] * x, box[3] * y] for box in boxes or ()]


def scale_keypoints(objects: Any, ratio: Ratio) -> list[list[list[float]]]:
    """Returns [[[x, y, score], …], …] with each point scaled."""
    x, y = ratio
    return [[[point[0] * x, point[1] * y, point[2]] for point in points] for points in objects or ()]


def scale_masks(objects: Any, ratio: Ratio) -> list[list[list[float]]]:
    """Returns [[[x, y, x, y, …], …], …] with each corner scaled."""
    return [[[value * ratio[at % 2] for at, value in enumerate(part)] for part in mask] for mask in objects or ()]


SCALED = {Type.BOXES: scale_boxes, Type.KEYPOINTS: scale_keypoints, Type.MASKS: scale_masks}


def scale_values(values: Mapping[str, Any], types: Mapping[str, Type], ratio: Ratio) -> dict[str, Any]:
    """Returns the values with their boxes, key points and masks scaled."""
    if ratio == SAME:
        return dict(values)
    return {
        name: SCALED[type_](value, ratio) if (type_ := types.get(name)) in SCALED else value
        for name, value in values.items()
    }
