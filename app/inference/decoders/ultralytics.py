"""YOLOv5 and YOLOv7, YOLOv8, v9 and v11, as Ultralytics exports them: boxes decoded, before suppression.

v5: one output 1×N×(5+C), three boxes in each cell of the strides 8, 16, 32; row: x, y, w, h in pixels of the input,
obj, classes; score = obj * cls. v8: one output 1×(4+C)×N, a box in each cell; score = cls. Probabilities already.
v8-pose: one output 1×(5+3K)×N or 1×N×(5+3K): box, score of the only class, then x and y in pixels of the input and a
probability for each of K key points. v8-seg: as v8, with 32 further channels: weights of the maps in a second output,
1×32×H/4×W/4, whose sum is above 0 within the object. Source: docs.ultralytics.com, modes/export; models/yolo.py of
ultralytics/yolov5 (formats alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.class_names import PERSON
from app.inference.decoders.grids import cell_count, corners_of
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Shape, Size

STRIDES = (8, 16, 32)
PROTOTYPES = 32
COCO_CHANNELS = 5 + 3 * 17
PREPARED = Preprocess(color="RGB", resize="letterbox")


class Yolov8(Detector):
    """YOLOv8, v9 and v11: one output 1×(4+C)×N without an objectness."""

    name: ClassVar[Decoder] = Decoder.YOLOV8
    other_channels: ClassVar[int | None] = 4
    preprocess: ClassVar[Preprocess] = PREPARED
    usual_size: ClassVar[Size] = (640, 640)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1 or len(ports[0].shape) != 3:
            return False
        channels, count = ports[0].shape[1:]
        if channels is not None and (channels <= 4 or (count is not None and channels >= count)):
            return False
        cells = sum(cell_count(size, stride) for stride in STRIDES)
        return count == cells if 0 not in size and count is not None else channels is not None

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        (values,) = outputs.values()
        rows = values[0].T.astype(np.float32)
        return _choose_classes(rows[:, :4], rows[:, 4:], floor)


class Yolov8Pose(Detector):
    """A detector of 1 + 3K classes has outputs of the same shape: values of more than 1 show that it is none, since
    they are pixels instead of probabilities. Before the values are known, only COCO's 17 key points are assumed."""

    name: ClassVar[Decoder] = Decoder.YOLOV8_POSE
    preprocess: ClassVar[Preprocess] = PREPARED
    usual_size: ClassVar[Size] = (640, 640)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        return PERSON if COCO_CHANNELS in ports[0].shape[1:] else ()

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        return ports[0].values is not None or COCO_CHANNELS in ports[0].shape[1:]

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1 or len(ports[0].shape) != 3 or None in ports[0].shape[1:]:
            return False
        axis = _axis_of_boxes(ports[0].shape, size)
        keypoints, rest = divmod((ports[0].shape[3 - axis] or 0) - 5, 3) if axis else (0, 0)
        if rest or keypoints < 1:
            return False
        values = ports[0].values
        return values is None or bool(_to_rows(values, axis)[:, 5:].max(initial=0) > MOST_SHARE)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        (values,) = outputs.values()
        rows = _to_rows(values, _axis_of_boxes(values.shape, size))
        rows = rows[rows[:, 4] >= floor].astype(np.float32)
        points = rows[:, 5:].reshape(len(rows), (rows.shape[1] - 5) // 3, 3)
        labels = np.zeros(len(rows), np.intp)
        return Detections(corners_of(rows[:, :2], rows[:, 2:4]), rows[:, 4], labels, keypoints=points)


class Yolov8Seg(Detector):
    """YOLOv8-seg: as YOLOv8, with 32 weights a box for the maps of a second output."""

    name: ClassVar[Decoder] = Decoder.YOLOV8_SEG
    other_channels: ClassVar[int | None] = 4 + PROTOTYPES
    preprocess: ClassVar[Preprocess] = PREPARED
    usual_size: ClassVar[Size] = (640, 640)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        return super().usual_labels(sorted(ports, key=lambda port: len(port.shape)))

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if sorted(len(port.shape) for port in ports) != [3, 4]:
            return False
        boxes, maps = sorted(ports, key=lambda port: len(port.shape))
        height, width = (None, None) if 0 in size else (size[1] // 4, size[0] // 4)
        if None in boxes.shape[1:] or not maps.fits(None, PROTOTYPES, height, width):
            return False
        axis = _axis_of_boxes(boxes.shape, size)
        return axis > 0 and (boxes.shape[3 - axis] or 0) > 4 + PROTOTYPES

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        values, maps = sorted(outputs.values(), key=lambda array: array.ndim)
        rows = _to_rows(values, _axis_of_boxes(values.shape, size)).astype(np.float32)
        rows = rows[rows[:, 4:-PROTOTYPES].max(axis=1, initial=0) >= floor]
        chosen = _choose_classes(rows[:, :4], rows[:, 4:-PROTOTYPES], floor)
        return replace(chosen, coefficients=rows[:, -PROTOTYPES:], prototypes=maps[0].astype(np.float32))


MOST_SHARE = 1.5
"""Probabilities of an int8 model may be a little above 1."""


def _axis_of_boxes(shape: Shape, size: Size) -> int:
    """Returns the axis with one entry for each cell, 2 or 1; the longer one if the size of the input is unknown, and 0
    if there is none."""
    if 0 in size:
        return 2 if (shape[2] or 0) > (shape[1] or 0) else 1
    cells = sum(cell_count(size, stride) for stride in STRIDES)
    return next((axis for axis in (2, 1) if shape[axis] == cells), 0)


def _to_rows(values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Returns one row for each box."""
    rows: npt.NDArray[Any] = values[0].T if axis == 2 else values[0]
    return rows


class Yolov5(Detector):
    """YOLOv5 and YOLOv7: one output 1×N×(5+C), whose classes count by their product with the objectness."""

    name: ClassVar[Decoder] = Decoder.YOLOV5
    other_channels: ClassVar[int | None] = 5
    preprocess: ClassVar[Preprocess] = PREPARED
    usual_size: ClassVar[Size] = (640, 640)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1 or 0 in size:
            return False
        width = ports[0].shape[-1]
        rows = 3 * sum(cell_count(size, stride) for stride in STRIDES)
        return ports[0].fits(None, rows, None) and ports[0].shape[1] == rows and (width is None or width > 5)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        (values,) = outputs.values()
        rows = values[0][values[0][:, 4] >= floor].astype(np.float32)
        return _choose_classes(rows[:, :4], rows[:, 5:] * rows[:, 4:5], floor)


def _choose_classes(boxes: Floats, scores: Floats, floor: float) -> Detections:
    """Returns the best class of each box.

    Args:
        boxes: center and sides in pixels, N×4.
        scores: N×C.
        floor: lowest score.
    """
    best = scores.max(axis=1, initial=0)
    chosen = np.flatnonzero(best >= floor)
    corners = corners_of(boxes[chosen, :2], boxes[chosen, 2:])
    return Detections(corners, best[chosen], scores[chosen].argmax(axis=1) if scores.size else chosen)
