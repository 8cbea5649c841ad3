"""Prior boxes of SSD's usual networks. How many there are shows which: 8732 of SSD300 with VGG, 3234 of torchvision's
SSDlite320, 3000 of MobileNet-SSD by qfgaohao, 1917 of TensorFlow's MobileNet-SSD.

Source: data/config.py and layers/functions/prior_box.py of amdegroot/ssd.pytorch, MIT; models/detection/anchor_utils.py
of torchvision, BSD-3-Clause; vision/ssd/config of qfgaohao/pytorch-ssd, MIT; anchor_generators/
multiple_grid_anchor_generator.py of TensorFlow's object_detection, Apache-2.0 (formats alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import sqrt

import numpy as np

from app.inference.decoders.grids import cells
from app.inference.preprocessing import Floats, Size

VOC_COLUMNS = 21
"""Of scores: the classes of Pascal VOC and the background."""
SHAPE = tuple[float, float]


@dataclass(frozen=True)
class PriorMap:
    """A square feature map, in fractions of the input."""

    columns: int
    pitch: float
    """Distance of its cells."""
    shapes: tuple[SHAPE, ...]
    """Width and height of the boxes of each cell."""


@dataclass(frozen=True)
class PriorSet:
    maps: tuple[PriorMap, ...]
    is_tensorflow: bool = False
    """Offsets are y, x, height, width; scores are independent of each other; prior boxes are not clipped."""
    cuts_first: bool = False
    """Boxes are cut at the border of the input before they are suppressed, as torchvision does."""

    @property
    def count(self) -> int:
        return sum(each.columns**2 * len(each.shapes) for each in self.maps)

    @cached_property
    def boxes(self) -> Floats:
        """Center and sides of each, in 0..1 of the input: N×4. Do not write to it."""
        parts = []
        for each in self.maps:
            centres = np.repeat((cells(each.columns, each.columns) + 0.5) * each.pitch, len(each.shapes), axis=0)
            parts.append(np.concatenate([centres, np.tile(each.shapes, (each.columns**2, 1))], axis=1))
        whole: Floats = np.concatenate(parts).astype(np.float32)
        if not self.is_tensorflow:
            whole = np.clip(whole, 0, 1)
        whole.flags.writeable = False
        return whole


def _list_shapes(side: float, larger: float, ratios: Sequence[int]) -> tuple[SHAPE, ...]:
    between = sqrt(side * larger)
    shapes = [(side, side), (between, between)]
    for root in map(sqrt, ratios):
        shapes += [(side * root, side / root), (side / root, side * root)]
    return tuple(shapes)


def _build_pixel_maps(
    columns: Sequence[int], steps: Sequence[int], sides: Sequence[int], ratios: Sequence[Sequence[int]]
) -> tuple[PriorMap, ...]:
    """Of an input of 300 pixels; `sides` has one more entry, the last larger one."""
    return tuple(
        PriorMap(count, step / 300, _list_shapes(side / 300, larger / 300, own))
        for count, step, (side, larger), own in zip(columns, steps, pairwise(sides), ratios, strict=True)
    )


VGG_MAPS, VGG_STEPS = (38, 19, 10, 5, 3, 1), (8, 16, 32, 64, 100, 300)
VGG_RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
VGG_COCO = PriorSet(
    _build_pixel_maps(VGG_MAPS, VGG_STEPS, (21, 45, 99, 153, 207, 261, 315), VGG_RATIOS), cuts_first=True
)
VGG_VOC = PriorSet(_build_pixel_maps(VGG_MAPS, VGG_STEPS, (30, 60, 111, 162, 213, 264, 315), VGG_RATIOS))
MOBILENET = PriorSet(
    _build_pixel_maps(
        (19, 10, 5, 3, 2, 1), (16, 32, 64, 100, 150, 300), (60, 105, 150, 195, 240, 285, 330), ((2, 3),) * 6
    )
)
SCALES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
SSDLITE = PriorSet(
    tuple(
        PriorMap(count, 1 / count, _list_shapes(side, larger, (2, 3)))
        for count, (side, larger) in zip((20, 10, 5, 3, 2, 1), pairwise(SCALES), strict=True)
    ),
    cuts_first=True,
)


def _list_tensorflow_shapes(side: float, larger: float) -> tuple[SHAPE, ...]:
    ratios = (1, 2, 1 / 2, 3, 1 / 3)
    return *((side * sqrt(ratio), side / sqrt(ratio)) for ratio in ratios), (sqrt(side * larger),) * 2


_SMALLEST = ((0.1, 0.1), (0.2 * sqrt(2), 0.2 / sqrt(2)), (0.2 / sqrt(2), 0.2 * sqrt(2)))
TENSORFLOW = PriorSet(
    (
        PriorMap(19, 1 / 19, _SMALLEST),
        *(
            PriorMap(count, 1 / count, _list_tensorflow_shapes(side, larger))
            for count, (side, larger) in zip((10, 5, 3, 2, 1), pairwise(SCALES[1:]), strict=True)
        ),
    ),
    is_tensorflow=True,
)
_BY_SIZE: dict[Size, tuple[PriorSet, ...]] = {(300, 300): (VGG_COCO, MOBILENET, TENSORFLOW), (320, 320): (SSDLITE,)}


def prior_set(rows: int, columns: int | None, size: Size) -> PriorSet | None:
    """Returns the prior boxes of a network; None if it is not a known one.

    Args:
        rows: number of boxes.
        columns: of the scores; None if not known.
        size: of the input.
    """
    known = next((each for each in _BY_SIZE.get(size, ()) if each.count == rows), None)
    return VGG_VOC if known is VGG_COCO and columns == VOC_COLUMNS else known
