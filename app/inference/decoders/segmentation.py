"""Semantic segmentation: a class for each pixel. Each connected part of a class is an area: a box with its outline.

One output, or several of the same shape of which the first counts (torchvision's `aux` is for training): scores 1×C×H×W
or 1×H×W×C, a mask with C = 1, or the numbers of the classes as integers, 1×H×W or with C = 1. Height and width are
those of the input, or down to an eighth of them. Areas of a class that is named `background` are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from app.inference.decoders.base import DecodedOutputs, Outputs, OutputSpec, box_around
from app.inference.decoders.class_names import BACKGROUND, CITYSCAPES, VOC
from app.inference.decoders.scores import TOLERANCE, require_numbers, shares_of
from app.inference.masks import Points, outlines, pixels_inside, signed_area, simplify_polygon
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Floats, Size

STRIDES = (1, 2, 4, 8)
PICTURE_CHANNELS = 3
"""A model with so many probably answers a picture; as a segmentation it has to be named."""
MOST_SAMPLES = 192
"""On each side of the picture: areas are as exact as half the distance of two samples."""
MOST_AREAS = 50
"""The largest ones."""
LEAST_SHARE = 0.0005
"""Of the picture; smaller areas are noise."""


class Segmentation:
    """Implements ModelFamily."""

    name: ClassVar[Decoder] = Decoder.SEGMENTATION
    preprocess: ClassVar[Preprocess] = Preprocess(color="RGB", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    usual_size: ClassVar[Size] = (512, 512)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        object_ = ("object",)
        names = {1: object_, 2: (BACKGROUND, *object_), 1 + len(VOC): (BACKGROUND, *VOC), len(CITYSCAPES): CITYSCAPES}
        shape, values = ports[0].shape, ports[0].values
        is_index = values is not None and values.dtype.kind in "iu"
        sides = (shape[1], shape[3]) if len(shape) == 4 and not is_index else ()
        return next((names[side] for side in sides if side in names), ())

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.fits`."""
        if not ports or len({port.shape for port in ports}) > 1 or _class_axis(ports[0], size) is None:
            return False
        values = ports[0].values
        return len(ports[0].shape) == 4 or values is None or values.dtype.kind in "iu"

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        axis, values = _class_axis(ports[0], size), ports[0].values
        channels = ports[0].shape[axis] if axis else 1
        if channels == 1 and values is not None and values.dtype.kind == "f":
            return bool(values.min() >= -TOLERANCE and values.max() <= 1 + TOLERANCE)
        return channels not in (None, PICTURE_CHANNELS) and len(ports) <= 2

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        name, values = next(iter(outputs.items()))
        axis = _class_axis(OutputSpec(name, values.shape), size)
        maps = np.moveaxis(values, axis, 1)[0] if axis else values
        require_numbers(maps)
        xs, ys = (np.linspace(start, start + side, min(side, MOST_SAMPLES) + 1) for start, side in _sides(fit))
        rows, columns = _cells(ys, size[1], maps.shape[1]), _cells(xs, size[0], maps.shape[2])
        classes, shares = _read_classes(maps[:, rows][:, :, columns])
        areas = [area for label in np.unique(classes) if label >= 0 for area in _areas(label, classes, shares, xs, ys)]
        largest = sorted(areas, key=lambda area: -area.size)[:MOST_AREAS]
        boxes = [box_around(area.outline, fit, area.score, area.label) for area in largest]
        floor = min(options.candidate_threshold, options.score_threshold)
        return DecodedOutputs.of_candidates((box for box in boxes if box.score >= floor), options)


def _class_axis(port: OutputSpec, size: Size) -> int | None:
    """Returns the axis of the classes, 0 if there is none; None if the output is no map over an input of this size."""
    shape = port.shape
    for axis in (1, 3) if len(shape) == 4 else (0,) if len(shape) == 3 else ():
        height, width = (side for place, side in enumerate(shape) if place not in (0, axis))
        if height is None or width is None or 0 in size:
            if height is width is None and axis and shape[axis] is not None:
                return axis
        elif any((height, width) == (-(-size[1] // stride), -(-size[0] // stride)) for stride in STRIDES):
            return axis
    return None


def _sides(fit: Fit) -> Iterator[tuple[int, int]]:
    """Yields where the picture starts in the input, and how long it is, by width and height."""
    yield from zip(fit.place, fit.inner, strict=True)


def _cells(places: Floats, side: int, count: int) -> npt.NDArray[np.intp]:
    """Returns the cells of a map of `count` over `side` pixels at these places."""
    return np.clip(np.floor(places * count / side), 0, count - 1).astype(np.intp)


def _read_classes(maps: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], Floats]:
    """Returns the class of each pixel, -1 outside of a mask, and its probability.

    Args:
        maps: C×H×W.
    """
    if maps.dtype.kind in "iu":
        return maps[0].astype(np.intp), np.ones(maps.shape[1:], np.float32)
    flat = maps.reshape(len(maps), -1).T.astype(np.float32)
    shares = shares_of(flat, is_exclusive=len(maps) > 1).reshape(*maps.shape[1:], len(maps))
    if len(maps) == 1:
        return np.where(shares[..., 0] > 0.5, 0, -1), shares[..., 0]
    return shares.argmax(axis=-1), shares.max(axis=-1)


class _Area(NamedTuple):
    """A connected part of a class, in pixels of the input."""

    size: float
    outline: Points
    score: float
    label: int


def _areas(label: np.intp, classes: npt.NDArray[np.intp], shares: Floats, xs: Floats, ys: Floats) -> Iterator[_Area]:
    """Yields the connected parts of a class.

    Args:
        classes: of each sample, H×W.
        shares: their probabilities.
        xs: of the columns, in pixels of the input.
        ys: of the rows.
    """
    is_class = classes == label
    least = LEAST_SHARE * (xs[-1] - xs[0]) * (ys[-1] - ys[0])
    for outline in outlines(np.where(is_class, 1.0, -1.0), xs, ys):
        size = signed_area(outline)
        if size < least:
            continue
        inner = shares[is_class & pixels_inside(outline, xs, ys)]
        if inner.size:
            yield _Area(size, simplify_polygon(outline, float(xs[1] - xs[0]) / 2), float(inner.mean()), int(label))
