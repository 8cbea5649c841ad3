"""YOLOv5 and YOLOv7, YOLOv8, v9 and v11, as Ultralytics exports them: boxes decoded, before suppression.

v5: one output 1×N×(5+C), three boxes in each cell of the strides 8, 16, 32; row: x, y, w, h in pixels of the input,
obj, classes; score = obj * cls. v8: one output 1×(4+C)×N, a box in each cell; score = cls. Probabilities already.
Source: docs.ultralytics.com, modes/export; models/yolo.py of ultralytics/yolov5 (formats alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cell_count, corners_of
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

STRIDES = (8, 16, 32)
PREPARED = Preprocess(color="RGB", resize="letterbox")


class Yolov8(Detector):
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
        return count == cells if 0 not in size else channels is not None and count is not None

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:  # noqa: ARG002
        (values,) = outputs.values()
        rows = values[0].T.astype(np.float32)
        return _chosen(rows[:, :4], rows[:, 4:], floor)


class Yolov5(Detector):
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

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:  # noqa: ARG002
        (values,) = outputs.values()
        rows = values[0][values[0][:, 4] >= floor].astype(np.float32)
        return _chosen(rows[:, :4], rows[:, 5:] * rows[:, 4:5], floor)


def _chosen(boxes: Floats, scores: Floats, floor: float) -> Detections:
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
