"""NanoDet-Plus: one output 1×N×(C+32) over the cells of the strides 8, 16, 32, 64.

Row: classes as probabilities, then for each side of the box eight logits, whose softmax weighs the distances 0…7 in
strides from the cell's place, cell * stride. Source: nanodet/model/head/nanodet_plus_head.py of RangiLyu/nanodet,
Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cells
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

STRIDES, STEPS = (8, 16, 32, 64), 8
WIDTH = 4 * STEPS


class Nanodet(Detector):
    name: ClassVar[Decoder] = Decoder.NANODET
    other_channels: ClassVar[int | None] = 32
    preprocess: ClassVar[Preprocess] = Preprocess(
        color="BGR", scale=1, mean=(103.53, 116.28, 123.675), std=(57.375, 57.12, 58.395)
    )
    usual_size: ClassVar[Size] = (416, 416)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1 or len(ports[0].shape) != 3 or 0 in size:
            return False
        width = ports[0].shape[2]
        return ports[0].shape[1] == len(_places(size)[0]) and (width is None or width > WIDTH)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        (values,) = outputs.values()
        rows = values[0].astype(np.float32)
        scores = rows[:, :-WIDTH]
        best = scores.max(axis=1)
        chosen = np.flatnonzero(best >= floor)
        places, strides = (part[chosen] for part in _places(size))
        logits = rows[chosen, -WIDTH:].reshape(-1, 4, STEPS)
        shares = np.exp(logits - logits.max(axis=2, keepdims=True))
        reach = (shares / shares.sum(axis=2, keepdims=True)) @ np.arange(STEPS, dtype=np.float32) * strides
        corners: Floats = np.concatenate([places - reach[:, :2], places + reach[:, 2:]], axis=1)
        return Detections(corners, best[chosen], scores[chosen].argmax(axis=1))


def _places(size: Size) -> tuple[Floats, Floats]:
    """Returns the origin of each cell in pixels, and its stride: N×2, N×1."""
    grids = [cells(-(-size[0] // stride), -(-size[1] // stride)) * stride for stride in STRIDES]
    strides = [np.full((len(grid), 1), stride, np.float32) for grid, stride in zip(grids, STRIDES, strict=True)]
    return np.concatenate(grids), np.concatenate(strides)
