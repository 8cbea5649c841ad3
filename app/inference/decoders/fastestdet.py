"""FastestDet: one output 1×(5+C)×H×W over cells of 16 pixels, classes of COCO as exported.

Channels: obj, x, y, w, h, then the classes; obj and classes are probabilities already. score = cls^0.4 * obj^0.6;
center = (cell + tanh(xy)) / (W, H) and sides = sigmoid(wh), in 0..1 of the picture. Source:
example/onnx-runtime/runtime.py of dog-qiuqiu/FastestDet, BSD-3-Clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cells, corners_of
from app.inference.decoders.scores import sigmoid
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

STRIDE = 16
CLASS_POWER, OBJECT_POWER = 0.4, 0.6


class Fastestdet(Detector):
    name: ClassVar[Decoder] = Decoder.FASTESTDET
    other_channels: ClassVar[int | None] = 5
    preprocess: ClassVar[Preprocess] = Preprocess(color="BGR")
    usual_size: ClassVar[Size] = (352, 352)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1 or len(ports[0].shape) != 4:
            return False
        channels = ports[0].shape[1]
        columns, rows = (side // STRIDE or None for side in size)
        return ports[0].fits(None, None, rows, columns) and (channels is None or channels > 5)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        (values,) = outputs.values()
        channels, rows, columns = values.shape[1:]
        flat = values.reshape(channels, -1).astype(np.float32)
        labels = flat[5:].argmax(axis=0)
        best = np.clip(flat[5:].max(axis=0), 0, 1)
        scores = best**CLASS_POWER * np.clip(flat[0], 0, 1) ** OBJECT_POWER
        chosen = np.flatnonzero(scores >= floor)
        picked: Floats = flat[1:5, chosen].T
        shift, sides = np.tanh(picked[:, :2]), sigmoid(picked[:, 2:])
        sides_in_cells: Floats = np.array([columns, rows], dtype=np.float32)
        centre = (cells(columns, rows)[chosen] + shift) / sides_in_cells
        pixels = corners_of(centre, sides) * np.array(size * 2, dtype=np.float32)
        return Detections(pixels.astype(np.float32), scores[chosen], labels[chosen])
