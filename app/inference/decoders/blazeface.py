"""BlazeFace, MediaPipe's detector of faces, for an input of 128 or 256 pixels: boxes 1×896×16 and logits 1×896×1.

Two anchors in each cell of a map of 16×16, then six in each of 8×8. A row has center and sides in pixels of the input,
the center from that of the cell, and six key points, which are not read. Source: mediapipe/calculators/tflite/
ssd_anchors_calculator.cc and tflite_tensors_to_detections_calculator.cc of google-ai-edge/mediapipe, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cells, corners_of
from app.inference.decoders.scores import sigmoid
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

MAPS = ((16, 2), (8, 6))
"""Cells on a side, and anchors in each."""
ANCHORS = sum(side**2 * count for side, count in MAPS)
SIDES = (0, 128, 256)
"""Of the input; 0 while it is open."""


class Blazeface(Detector):
    name: ClassVar[Decoder] = Decoder.BLAZEFACE
    preprocess: ClassVar[Preprocess] = Preprocess(
        color="RGB", scale=1, mean=(127.5,), std=(127.5,), resize="letterbox", pad_value=0
    )
    usual_size: ClassVar[Size] = (128, 128)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 2 or size[0] != size[1] or size[0] not in SIDES:
            return False
        scores, boxes = sorted(ports, key=lambda port: port.shape[-1] or 0)
        return scores.fits(None, ANCHORS, 1) and boxes.fits(None, ANCHORS, 16) and None not in boxes.shape[1:]

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        logits, boxes = (values[0].astype(np.float32) for values in sorted(outputs.values(), key=lambda one: one.shape))
        scores = sigmoid(logits[:, 0])
        chosen = np.flatnonzero(scores >= floor)
        centre = boxes[chosen, :2] + _centres()[chosen] * np.array(size, np.float32)
        return Detections(corners_of(centre, boxes[chosen, 2:4]), scores[chosen], np.zeros(len(chosen), np.intp))


@cache
def _centres() -> Floats:
    """Returns the centers of the anchors in 0..1 of the input, N×2. Do not write to it."""
    parts = [np.repeat((cells(side, side) + 0.5) / side, count, axis=0) for side, count in MAPS]
    whole: Floats = np.concatenate(parts).astype(np.float32)
    whole.flags.writeable = False
    return whole
