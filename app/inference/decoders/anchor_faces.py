"""SCRFD and RetinaFace: detectors of faces with two anchors in each cell of the strides 8, 16, 32. Key points are not
read.

SCRFD: for each stride scores N×1, distances N×4 from the anchor's place to the sides of the box in strides, and
perhaps key points N×10; with or without a batch axis. Place = cell * stride. Probabilities already.
RetinaFace: boxes 1×N×4 as offsets to prior boxes, scores 1×N×2 (background, face), key points 1×N×10.
Source: detection/scrfd/tools/scrfd.py of insightface; layers/functions/prior_box.py of biubug6/Pytorch_Retinaface, MIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.grids import cells, from_offsets
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

STRIDES, ANCHORS = (8, 16, 32), 2
PRIOR_SIDES = {8: (16, 32), 16: (64, 128), 32: (256, 512)}
"""Sides of RetinaFace's prior boxes in pixels, by stride."""


class Scrfd(Detector):
    """Boxes of faces by SCRFD; the module describes its outputs."""

    name: ClassVar[Decoder] = Decoder.SCRFD
    preprocess: ClassVar[Preprocess] = Preprocess(
        color="RGB", scale=1, mean=(127.5,), std=(128,), resize="letterbox", pad_value=0
    )
    usual_size: ClassVar[Size] = (640, 640)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        widths = sorted(port.shape[-1] or 0 for port in ports if len(port.shape) in (2, 3))
        if widths not in ([1] * 3 + [4] * 3, [1] * 3 + [4] * 3 + [10] * 3) or len(widths) != len(ports):
            return False
        rows = sorted(port.shape[-2] or 0 for port in ports)
        expected = sorted([_count_anchors(size, stride) for stride in STRIDES] * (len(ports) // 3))
        return 0 in size or 0 in rows or rows == expected

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        parts = [self._of_stride(outputs, size, stride, floor) for stride in STRIDES]
        corners, scores = (np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
        return Detections(corners, scores, np.zeros(len(scores), np.intp))

    @staticmethod
    def _of_stride(outputs: Outputs, size: Size, stride: int, floor: float) -> tuple[Floats, Floats]:
        flat = [values.reshape(-1, values.shape[-1]) for values in outputs.values()]
        own = {values.shape[1]: values for values in flat if len(values) == _count_anchors(size, stride)}
        scores = own[1][:, 0]
        chosen = np.flatnonzero(scores >= floor)
        places = np.repeat(cells(*_count_cells(size, stride)), ANCHORS, axis=0)[chosen] * stride
        reach = own[4][chosen] * stride
        return np.concatenate([places - reach[:, :2], places + reach[:, 2:]], axis=1), scores[chosen]


class Retinaface(Detector):
    """Boxes of faces by RetinaFace; the module describes its outputs."""

    name: ClassVar[Decoder] = Decoder.RETINAFACE
    preprocess: ClassVar[Preprocess] = Preprocess(color="BGR", scale=1, mean=(104, 117, 123))
    usual_size: ClassVar[Size] = (640, 640)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if sorted(port.shape[-1] or 0 for port in ports if len(port.shape) == 3) != [2, 4, 10] or len(ports) != 3:
            return False
        rows = {port.shape[1] for port in ports} - {None}
        return len(rows) <= 1 and (0 in size or not rows or rows == {len(priors(size))})

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        by_width = {values.shape[-1]: values[0] for values in outputs.values()}
        scores = by_width[2][:, 1]
        chosen = np.flatnonzero(scores >= floor)
        offsets, prior = by_width[4][chosen], priors(size)[chosen]
        corners = from_offsets(offsets, prior).astype(np.float32)
        return Detections(corners, scores[chosen].astype(np.float32), np.zeros(len(chosen), np.intp))


def _count_cells(size: Size, stride: int) -> Size:
    """Returns columns and rows of the cells."""
    return -(-size[0] // stride), -(-size[1] // stride)


def _count_anchors(size: Size, stride: int) -> int:
    columns, rows = _count_cells(size, stride)
    return ANCHORS * columns * rows


@lru_cache(maxsize=8)
def priors(size: Size) -> Floats:
    """Returns center and sides of RetinaFace's prior boxes in pixels, N×4."""
    parts = []
    for stride, lengths in PRIOR_SIDES.items():
        grid = cells(*_count_cells(size, stride))
        centres = np.repeat((grid + 0.5) * stride, len(lengths), axis=0)
        extents = np.tile(np.repeat(np.array(lengths, np.float32)[:, None], 2, axis=1), (len(grid), 1))
        parts.append(np.concatenate([centres, extents], axis=1))
    whole: Floats = np.concatenate(parts).astype(np.float32)
    whole.flags.writeable = False
    return whole
