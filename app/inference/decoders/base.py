"""What a decoder is: a family of models whose outputs are read alike; and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from app.inference.prediction import Box, Decoder, PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Floats, Shape, Size

Outputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class OutputSpec:
    """An output: its name and shape, batch included."""

    name: str
    shape: Shape

    def fits(self, *shape: int | None) -> bool:
        """Can it be of this shape? None, in either, fits any side."""
        return len(self.shape) == len(shape) and all(
            side is None or other is None or side == other for side, other in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class DecodedOutputs:
    """The parts of a Prediction that a decoder reads out of a model's outputs; see there."""

    boxes: tuple[Box, ...] = ()
    candidates: tuple[Box, ...] = ()
    probabilities: tuple[float, ...] = ()


class ModelFamily(Protocol):
    """Keeps no state between pictures, so threads may share it."""

    name: ClassVar[Decoder]
    preprocess: ClassVar[Preprocess]
    """What its models are fed with by default."""
    usual_size: ClassVar[Size]
    """Of an input that leaves its sides open; zeros where the family has no usual size."""

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """Are these the outputs of such a model with an input of this size? Zeros: the size is not known yet."""

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """Reads the outputs of one picture.

        Args:
            outputs: By name, batch included.
            fit: Where the picture lies in the input.
            size: Of the input.
            options: Thresholds.

        Raises:
            InferenceFailed: An output holds values that are no numbers.
        """


@dataclass(frozen=True)
class Detections:
    """N boxes as a model answers them, before suppression."""

    corners: Floats
    """x1, y1, x2, y2 in pixels of the input: N×4."""
    scores: Floats
    """N, in 0..1."""
    labels: npt.NDArray[np.intp]
    """Indexes of their classes: N."""


class Detector:
    """What all detectors have in common: thresholds, suppression, and the way back to the picture's pixels."""

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        """Boxes that score `floor` or more.

        Args:
            size: of the input.
        """
        raise NotImplementedError

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        floor = min(options.candidate_threshold, options.score_threshold)
        with np.errstate(all="ignore"):
            detections = self.find(outputs, size, floor)
            corners = fit.to_source(detections.corners)
        kept = suppressed(corners, detections.scores, detections.labels, options.nms_threshold)
        candidates = tuple(
            Box(x1, y1, x2, y2, score, label)
            for (x1, y1, x2, y2), score, label in zip(
                corners[kept].tolist(), detections.scores[kept].tolist(), detections.labels[kept].tolist(), strict=True
            )
        )
        return DecodedOutputs(tuple(box for box in candidates if box.score >= options.score_threshold), candidates)


MOST = 1000
"""Boxes that are compared, the best ones; a detector that finds more of them finds noise."""


def suppressed(corners: Floats, scores: Floats, labels: npt.NDArray[np.intp], threshold: float) -> npt.NDArray[np.intp]:
    """Boxes with a corner or score that is no finite number are dropped, too.

    Args:
        corners: x1, y1, x2, y2: N×4.
        scores: N.
        labels: Indexes of their classes: N.
        threshold: Overlap (IoU) above which the weaker of two boxes of a class is dropped.

    Returns:
        Indexes of the boxes that stay, best first.
    """
    sound = np.flatnonzero(np.isfinite(corners).all(axis=1) & np.isfinite(scores))
    order = sound[np.argsort(-scores[sound], kind="stable")][:MOST]
    kept: list[int] = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        order = rest[(overlap(corners[best], corners[rest]) <= threshold) | (labels[rest] != labels[best])]
    return np.array(kept, dtype=np.intp)


def overlap(box: Floats, others: Floats) -> Floats:
    """Intersection over union of a box with N others; 0 if both are empty."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    share: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return share
