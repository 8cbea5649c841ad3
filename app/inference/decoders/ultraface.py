"""Ultra-Light-Fast-Generic-Face-Detector (Linzaer; slim and RFB, 320 and 640 wide).

Two outputs: scores 1×N×2 (background, face) and boxes 1×N×4. The usual export gives corners in 0..1 of the picture; the
one without post-processing, the easier start for an NPU, gives offsets to prior boxes. Which of them it is shows in the
numbers: corners are in order, offsets are not. Source: vision/utils/box_utils.py and vision/ssd/config of that project,
MIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import are_offsets, cells, from_offsets
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

PRIOR_SIDES = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}
"""Sides of the prior boxes in pixels, by stride."""


class Ultraface(Detector):
    name: ClassVar[Decoder] = Decoder.ULTRAFACE
    preprocess: ClassVar[Preprocess] = Preprocess(color="RGB", scale=1, mean=(127,), std=(128,))
    usual_size: ClassVar[Size] = (320, 240)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 2:
            return False
        scores, boxes = sorted(ports, key=lambda port: port.shape[-1] or 0)
        return scores.fits(None, None, 2) and boxes.fits(None, scores.shape[1] if len(scores.shape) == 3 else None, 4)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        scores, boxes = (values[0] for values in sorted(outputs.values(), key=lambda values: values.shape[-1]))
        chosen = np.flatnonzero(scores[:, 1] >= floor)
        if are_offsets(boxes) and len(priors(size)) == len(boxes):
            corners = from_offsets(boxes[chosen], priors(size)[chosen])
        else:
            corners = boxes[chosen]
        pixels = corners.astype(np.float32) * np.array(size * 2, dtype=np.float32)
        return Detections(pixels, scores[chosen, 1].astype(np.float32), np.zeros(len(chosen), np.intp))


@lru_cache(maxsize=8)
def priors(size: Size) -> Floats:
    """Returns center and sides of every prior box, in 0..1 of the input: N×4."""
    sides = np.array(size, dtype=np.float32)
    parts = []
    for stride, lengths in PRIOR_SIDES.items():
        grid = cells(-(-size[0] // stride), -(-size[1] // stride))
        centres = np.repeat((grid + 0.5) * stride / sides, len(lengths), axis=0)
        extents = np.tile(np.array(lengths, dtype=np.float32)[:, None] / sides, (len(grid), 1))
        parts.append(np.concatenate([centres, extents], axis=1))
    whole: Floats = np.clip(np.concatenate(parts), 0, 1).astype(np.float32)
    return whole
