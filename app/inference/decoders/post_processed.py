"""Boxes, scores and classes as separate outputs, chosen and suppressed by the model itself.

With a batch axis, 1×N×4, 1×N, 1×N, or without, N×4, N, N. TensorFlow's exports have a count of valid rows as well, and
perhaps outputs that are not needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.decoders.base import Detections, Outputs, OutputSpec
from app.inference.preprocessing import Floats, Size

TENSORFLOW = re.compile(r"^(?:.*/)?(detection_(?:boxes|scores|classes)|num_detections)(?::\d+)?$")
TFLITE = re.compile(r"^TFLite_Detection_PostProcess(?::\d+)?$")
LARGEST_FRACTION = 2
"""Boxes without a coordinate above it are fractions of the input; otherwise they are pixels."""

Values = npt.NDArray[Any]


@dataclass(frozen=True)
class Roles:
    """Names of the outputs."""

    boxes: str
    first: str
    """Scores or classes: as `second`."""
    second: str
    count: str = ""
    """Of the valid rows; empty without."""
    is_tensorflow: bool = False
    """Corners are y1, x1, y2, x2."""
    first_class: int = 1
    """Number of the first class that is not the background."""


def roles_of(ports: Sequence[OutputSpec]) -> Roles | None:
    """Returns what the outputs are; None if they are not boxes, scores and classes."""
    named = {match[1]: port for port in ports if (match := TENSORFLOW.match(port.name))}
    if "detection_boxes" in named:
        chosen = [named[key] for key in named if key != "num_detections"]
        count = named["num_detections"].name if "num_detections" in named else ""
        return _find_roles(chosen, count=count, is_tensorflow=True)
    if all(TFLITE.match(port.name) for port in ports):
        single = [port for port in ports if len(port.shape) < 2]
        chosen = [port for port in ports if port not in single]
        return (
            _find_roles(chosen, count=single[0].name, is_tensorflow=True, first_class=0) if len(single) == 1 else None
        )
    return _find_roles(ports)


def _find_roles(ports: Sequence[OutputSpec], **more: Any) -> Roles | None:
    boxes = [port for port in ports if port.shape[-1:] == (4,) and len(port.shape) in (2, 3)]
    if len(ports) != 3 or not boxes:
        return None
    box = max(boxes, key=lambda port: len(port.shape))
    others = [port for port in ports if port is not box]
    fit = all(port.fits(*box.shape[:-1]) for port in others) and others[0].fits(*others[1].shape)
    return Roles(box.name, others[0].name, others[1].name, **more) if fit else None


def rows_of(ports: Sequence[OutputSpec], roles: Roles) -> tuple[bool, int | None]:
    """Returns whether there is a batch axis, and the number of rows; None if it is open."""
    shape = next(port.shape for port in ports if port.name == roles.boxes)
    return len(shape) == 3, shape[-2]


def post_processed(outputs: Outputs, roles: Roles, size: Size, floor: float) -> Detections:
    """Returns the boxes with a score of at least `floor`.

    Args:
        outputs: by name.
        roles: what they are.
        size: of the input.
    """
    has_batch = outputs[roles.boxes].ndim == 3
    boxes, first, second = (
        outputs[name][0] if has_batch else outputs[name] for name in (roles.boxes, roles.first, roles.second)
    )
    scores, classes = (second, first) if _are_classes(roles.first, first, roles.second, second) else (first, second)
    scores, classes = scores.astype(np.float32), np.nan_to_num(classes.astype(np.float64), nan=-1)
    valid = int(outputs[roles.count].reshape(-1)[0]) if roles.count else len(scores)
    labels = np.rint(classes).astype(np.intp) - roles.first_class
    chosen = np.flatnonzero((scores >= floor) & (labels >= 0) & (np.arange(len(scores)) < valid))
    corners = boxes[chosen].astype(np.float32)
    if roles.is_tensorflow:
        corners = corners[:, [1, 0, 3, 2]]
    return Detections(pixels_of(corners, size), scores[chosen], labels[chosen], is_final=True)


def pixels_of(corners: Floats, size: Size) -> Floats:
    """Converts corners from fractions of the input to its pixels, N×4; what are pixels stays."""
    if np.nanmax(np.abs(corners), initial=0) > LARGEST_FRACTION:
        return corners
    return corners * np.array(size * 2, dtype=np.float32)


def _are_classes(name: str, values: Values, other_name: str, others: Values) -> bool:
    """Returns whether these are the classes and the others the scores. Exporters that leave the outputs unnamed write
    classes as integers, or first."""
    for pattern in ("class|label", "score|conf|prob"):
        shows, other_shows = (bool(re.search(pattern, each, re.IGNORECASE)) for each in (name, other_name))
        if shows != other_shows:
            return shows == (pattern == "class|label")
    if (values.dtype.kind in "iu") != (others.dtype.kind in "iu"):
        return values.dtype.kind in "iu"
    return True
