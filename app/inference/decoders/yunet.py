"""YuNet, the face detector of libfacedetection and OpenCV.

For each stride of 8, 16, 32 four outputs over N cells, row by row: cls and obj 1×N×1, bbox 1×N×4, kps 1×N×10.
score = sqrt(cls * obj); center = (cell + xy) * stride; sides = exp(wh) * stride. Landmarks are not read.
Recognized only by shapes, so names changed by a converter do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cell_count, cells, corners_of
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

STRIDES = (8, 16, 32)
LAST_SIDES = [1] * 6 + [4] * 3 + [10] * 3


class Yunet(Detector):
    name: ClassVar[Decoder] = Decoder.YUNET
    preprocess: ClassVar[Preprocess] = Preprocess(color="BGR", scale=1)
    usual_size: ClassVar[Size] = (320, 320)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if sorted(port.shape[-1] or 0 for port in ports if len(port.shape) == 3) != LAST_SIDES:
            return False
        rows = sorted(port.shape[1] or 0 for port in ports)
        return 0 in size or 0 in rows or rows == sorted(4 * [cell_count(size, stride) for stride in STRIDES])

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        parts = [_of_stride(outputs, size, stride, floor) for stride in STRIDES]
        corners, scores = (np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
        return Detections(corners, scores, np.zeros(len(scores), np.intp))


def _of_stride(outputs: Outputs, size: Size, stride: int, floor: float) -> tuple[Floats, Floats]:
    own = [values[0] for values in outputs.values() if values.shape[1] == cell_count(size, stride)]
    first, second = (values[:, 0] for values in own if values.shape[1] == 1)
    (boxes,) = (values for values in own if values.shape[1] == 4)
    scores = np.sqrt(np.clip(first, 0, 1) * np.clip(second, 0, 1))
    chosen = np.flatnonzero(scores >= floor)
    picked = boxes[chosen]
    centre = (cells(size[0] // stride, size[1] // stride)[chosen] + picked[:, :2]) * stride
    return corners_of(centre, np.exp(picked[:, 2:]) * stride), scores[chosen]
