"""YOLOX (Megvii), exported without its decoding: one output 1×N×(5+C), N cells of the strides 8, 16, 32.

Row: x, y, w, h, obj, then the classes; obj and classes are probabilities already. score = obj * cls; center = (cell +
xy) * stride; sides = exp(wh) * stride. The best class of a cell counts. Source: demo/ONNXRuntime and
utils/demo_utils.py of Megvii-BaseDetection/YOLOX, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cell_count, corners_of, pyramid
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Size

STRIDES = (8, 16, 32)


class Yolox(Detector):
    name: ClassVar[Decoder] = Decoder.YOLOX
    other_channels: ClassVar[int | None] = 5
    preprocess: ClassVar[Preprocess] = Preprocess(color="BGR", scale=1, resize="letterbox", pad_value=114)
    usual_size: ClassVar[Size] = (416, 416)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1 or len(ports[0].shape) != 3:
            return False
        width = ports[0].shape[2]
        rows = None if 0 in size else sum(cell_count(size, stride) for stride in STRIDES)
        return ports[0].fits(None, rows, None) and (width is None or width > 5)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        (values,) = outputs.values()
        rows = values[0]
        likely = np.flatnonzero(rows[:, 4] >= floor)
        rows = rows[likely].astype(np.float32)
        labels = rows[:, 5:].argmax(axis=1)
        scores = rows[:, 4] * rows[:, 5:].max(axis=1)
        chosen = np.flatnonzero(scores >= floor)
        grid, stride = (part[likely[chosen]] for part in pyramid(size, STRIDES))
        picked = rows[chosen]
        corners = corners_of((picked[:, :2] + grid) * stride, np.exp(picked[:, 2:4]) * stride)
        return Detections(corners, scores[chosen], labels[chosen])
