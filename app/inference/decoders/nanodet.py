"""NanoDet-Plus and NanoDet: classes as probabilities, and for each side of a box logits over the distances 0, 1, … in
strides, whose softmax weighs them.

Plus: one output 1×N×(C+4·8) over the cells of the strides 8, 16, 32, 64; distances count from the cell's corner.
NanoDet: for each of the strides 8, 16, 32 classes N×C and distances N×4·8 or N×4·11, with or without a batch axis; they
count from the cell's center. Source: nanodet_plus_head.py and gfl_head.py in nanodet/model/head of RangiLyu/nanodet,
Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec
from app.inference.decoders.class_names import COCO
from app.inference.decoders.grids import cells
from app.inference.decoders.scores import find_scored_pairs, softmax
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Floats, Size

PLUS_STRIDES, STRIDES = (8, 16, 32, 64), (8, 16, 32)
WIDTH = 4 * 8
WIDTHS = (WIDTH, 4 * 11)
"""Columns of the distances."""


class Nanodet(Detector):
    name: ClassVar[Decoder] = Decoder.NANODET
    preprocess: ClassVar[Preprocess] = Preprocess(
        color="BGR", scale=1, mean=(103.53, 116.28, 123.675), std=(57.375, 57.12, 58.395)
    )
    usual_size: ClassVar[Size] = (416, 416)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        distances = WIDTH if len(ports) == 1 else 0
        return COCO if len(COCO) + distances in {port.shape[-1] for port in ports} else ()

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if 0 in size:
            return False
        if len(ports) == 1 and len(ports[0].shape) == 3:
            width = ports[0].shape[2]
            return ports[0].shape[1] == sum(_counts(size, PLUS_STRIDES)) and (width is None or width > WIDTH)
        if len(ports) != 2 * len(STRIDES) or any(len(port.shape) not in (2, 3) for port in ports):
            return False
        rows = sorted(port.shape[-2] or 0 for port in ports)
        widths = sorted(port.shape[-1] or 0 for port in ports)
        few, many = widths[: len(STRIDES)], widths[len(STRIDES) :]
        is_pair = len(set(few)) == len(set(many)) == 1 and (few[0] in WIDTHS or many[0] in WIDTHS)
        return is_pair and rows == sorted(_counts(size, STRIDES) * 2)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        if len(outputs) == 1:
            (values,) = outputs.values()
            rows = values[0].astype(np.float32)
            scores, logits, middle = rows[:, :-WIDTH], rows[:, -WIDTH:], 0.0
        else:
            (scores, logits), middle = _parts(outputs, size), 0.5
        strides = PLUS_STRIDES if len(outputs) == 1 else STRIDES
        chosen, labels = find_scored_pairs(scores, floor)
        places, steps = (part[chosen] for part in _locate_cells(size, strides, middle))
        picked = logits[chosen].reshape(len(chosen), 4, logits.shape[1] // 4)
        reach = softmax(picked) @ np.arange(picked.shape[2], dtype=np.float32) * steps
        corners: Floats = np.concatenate([places - reach[:, :2], places + reach[:, 2:]], axis=1)
        return Detections(corners, scores[chosen, labels], labels)


def _parts(outputs: Outputs, size: Size) -> tuple[Floats, Floats]:
    """Returns classes and distances of all strides, one after the other. Exporters write the classes of a stride before
    its distances, which matters where both have as many columns."""
    flat = [values.reshape(-1, values.shape[-1]).astype(np.float32) for values in outputs.values()]
    pairs = [[values for values in flat if len(values) == count] for count in _counts(size, STRIDES)]
    has_distances_last = all(second.shape[1] in WIDTHS for _, second in pairs)
    ordered = pairs if has_distances_last else [pair[::-1] for pair in pairs]
    scores, logits = (np.concatenate(part) for part in zip(*ordered, strict=True))
    return scores, logits


def _counts(size: Size, strides: Sequence[int]) -> list[int]:
    return [-(-size[0] // stride) * -(-size[1] // stride) for stride in strides]


def _locate_cells(size: Size, strides: Sequence[int], middle: float) -> tuple[Floats, Floats]:
    """Returns the place in each cell from which its distances count, in pixels, and its stride: N×2, N×1.

    Args:
        middle: the place, in strides from the corner of the cell.
    """
    grids = [(cells(-(-size[0] // stride), -(-size[1] // stride)) + middle) * stride for stride in strides]
    steps = [np.full((len(grid), 1), stride, np.float32) for grid, stride in zip(grids, strides, strict=True)]
    return np.concatenate(grids), np.concatenate(steps)
