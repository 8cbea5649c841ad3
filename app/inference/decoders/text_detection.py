"""Text detection by differentiable binarization (DB, PP-OCR): one map 1×1×H×W of probabilities that a pixel belongs to
a line of text. Each line is a box with a mask of four corners, which may be turned.

Parts of the map above 0.3 are lines; the smallest rectangle around one is enlarged on all sides by its area · 1.5 / its
perimeter, since the map shows shrunken lines; its score is the mean of the map within the rectangle before that.
Source: ppocr/postprocess/db_postprocess.py of PaddlePaddle/PaddleOCR, Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import DecodedOutputs, Outputs, OutputSpec, box_around
from app.inference.masks import Points, outlines, pixels_inside
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Floats, Size

PADDLE = re.compile(r"\.tmp_\d+$|^fetch_name_\d+$|^save_infer_model/")
"""Names that Paddle's exporter gives to outputs."""
LEAST_SHARE, ENLARGEMENT = 0.3, 1.5
LEAST_SIDE = 4
"""Of a line before it is enlarged, in pixels."""
BORDER = 0.5
"""Outlines run half a pixel outside of the centers of the outer pixels."""
MOST_LINES = 1000
ANGLES = np.radians(np.arange(0, 90, 2))
FINE_ANGLES = np.radians(np.linspace(-2, 2, 41))


class TextDetection:
    """Implements ModelFamily."""

    name: ClassVar[Decoder] = Decoder.TEXT_DETECTION
    preprocess: ClassVar[Preprocess] = Preprocess(
        color="BGR", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), resize="letterbox", pad_value=0
    )
    usual_size: ClassVar[Size] = (736, 736)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        return ("text",)

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.fits`."""
        height, width = (side or None for side in reversed(size))
        return len(ports) == 1 and ports[0].fits(None, 1, height, width)

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        return PADDLE.search(ports[0].name) is not None

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        (values,) = outputs.values()
        floor = min(options.candidate_threshold, options.score_threshold)
        lines = sorted(_lines(values[0, 0].astype(np.float32), floor), key=lambda line: -line[1])
        return DecodedOutputs.of_candidates((box_around(corners, fit, score, 0) for corners, score in lines), options)


def _lines(shares: Floats, floor: float) -> Iterator[tuple[Points, float]]:
    """Yields the four corners of each line in pixels of the map, the upper left first, and its score."""
    shares = np.nan_to_num(shares)
    xs, ys = (np.arange(side) for side in reversed(shares.shape))
    for outline in outlines(np.where(shares > LEAST_SHARE, 1.0, -1.0), xs, ys)[:MOST_LINES]:
        if np.ptp(outline, axis=0).max() < LEAST_SIDE:
            continue
        corners = smallest_rectangle(outline)
        if min(_lengths(corners)) < LEAST_SIDE:
            continue
        corners = _widen(corners, -BORDER)
        ends = corners.min(axis=0), corners.max(axis=0)
        low, high = (np.clip(end, 0, shares.shape[::-1]).astype(int) for end in ends)
        columns, rows = (slice(start, end + 1) for start, end in zip(low, high, strict=True))
        part = shares[rows, columns]
        inner = part[pixels_inside(corners, xs[columns], ys[rows])] if min(part.shape) > 1 else part
        score = float(inner.mean()) if inner.size else 0.0
        if score >= floor:
            width, height = _lengths(corners)
            yield _widen(corners, width * height * ENLARGEMENT / (2 * (width + height))), min(score, 1.0)


def smallest_rectangle(points: Points) -> Points:
    """Returns the corners of the rectangle with the least area around points, clockwise, the upper left one first; its
    angle is exact to a tenth of a degree."""
    coarse = _least_angle(points, ANGLES)
    turn = _turn(_least_angle(points, coarse + FINE_ANGLES))
    turned = points @ turn
    (left, top), (right, bottom) = turned.min(axis=0), turned.max(axis=0)
    corners: Points = np.array([[left, top], [right, top], [right, bottom], [left, bottom]]) @ turn.T
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)


def _least_angle(points: Points, angles: Floats) -> float:
    extents = [np.ptp(points @ _turn(angle), axis=0) for angle in angles]
    return float(angles[int(np.argmin([np.prod(extent) for extent in extents]))])


def _turn(angle: float) -> Points:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _lengths(corners: Points) -> tuple[float, float]:
    """Returns width and height of a rectangle."""
    across, down = corners[1] - corners[0], corners[3] - corners[0]
    return float(np.hypot(*across)), float(np.hypot(*down))


def _widen(corners: Points, distance: float) -> Points:
    """Returns the rectangle with each side moved outward by this distance."""
    width, height = _lengths(corners)
    across, down = (corners[1] - corners[0]) / width, (corners[3] - corners[0]) / height
    return corners + distance * np.array([-across - down, across - down, across + down, -across + down])
