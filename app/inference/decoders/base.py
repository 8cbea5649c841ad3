"""What a decoder is: a family of models whose outputs are read alike; and non-maximum suppression.

A custom one is an entry point of the group `modelmill.decoders`, `name = "module:Class"`, a subclass of `Detector`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from app.inference.decoders.class_names import COCO, FACE
from app.inference.keypoints import Keypoint
from app.inference.masks import Points, mask_of
from app.inference.polygons import Polygon
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Floats, Shape, Size

Outputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class OutputSpec:
    """An output: its name and its shape, including the batch."""

    name: str
    shape: Shape
    values: npt.NDArray[Any] | None = field(default=None, compare=False)
    """Its values for some picture, for families that look alike by their shapes; None: it has not been run."""

    def fits(self, *shape: int | None) -> bool:
        """Returns whether it can have this shape. None, in either, fits any side."""
        return len(self.shape) == len(shape) and all(
            side is None or other is None or side == other for side, other in zip(self.shape, shape, strict=True)
        )


BLANK = re.compile(r"[-_]|\W*(ctc|blank|blk)+\W*", re.IGNORECASE)
"""Usual names of the class that is no character."""


@dataclass(frozen=True)
class LineOfText:
    """What a model reads in a picture of one line."""

    classes: tuple[int, ...]
    """The best class of each step."""
    shares: tuple[float, ...]
    """Their probabilities."""
    count: int
    """Number of classes, with the blank."""

    def read(self, characters: Sequence[str]) -> tuple[str, float]:
        """Returns the text and the mean probability of its characters; a character without a name is left out.

        Args:
            characters: names of the classes, with or without one for the blank. The blank is the first class, or the
                last one if its name says so.
        """
        first = 0 if len(characters) >= self.count else 1
        is_last = first == 0 and BLANK.fullmatch(characters[self.count - 1]) and not BLANK.fullmatch(characters[0])
        blank = self.count - 1 if is_last else 0
        befores = (blank, *self.classes[:-1])
        steps = zip(befores, self.classes, self.shares, strict=True) if self.classes else ()
        read = [(number, share) for before, number, share in steps if number not in (before, blank)]
        text = "".join(characters[number - first] for number, _ in read if number - first < len(characters))
        return text, sum(share for _, share in read) / len(read) if read else 0.0


@dataclass(frozen=True)
class DecodedOutputs:
    """The parts of a Prediction that a decoder reads out of a model's outputs; see there."""

    boxes: tuple[Box, ...] = ()
    candidates: tuple[Box, ...] = ()
    probabilities: tuple[float, ...] = ()
    line: LineOfText | None = None
    """Of a model that reads text; it fills the picture."""

    @classmethod
    def of_candidates(cls, candidates: Iterable[Box], options: PredictorOptions) -> DecodedOutputs:
        """Returns candidates, and as boxes those whose score is high enough."""
        candidates = tuple(candidates)
        return cls(tuple(box for box in candidates if box.score >= options.score_threshold), candidates)


class ModelFamily(Protocol):
    """Has no state between pictures, so threads may share it."""

    @property
    def name(self) -> Decoder:
        """The name by which it is chosen."""

    @property
    def preprocess(self) -> Preprocess:
        """Default preprocessing of its models."""

    @property
    def usual_size(self) -> Size:
        """Size of an input that leaves its sides open; zeros if the family has no usual size."""

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """Returns default names of the classes of a model with these outputs; empty if they are not known."""

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """Returns whether such a model with an input of this size has these outputs. Zeros: the size is not known
        yet."""

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """Returns whether outputs that fit show the family. Otherwise, it reads them only if it is named."""

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """Reads the outputs of one picture.

        Args:
            outputs: by name, including the batch.
            fit: where the picture lies in the input.
            size: of the input.
            options: thresholds.

        Raises:
            InferenceFailed: An output has values that are not numbers.
        """


@dataclass(frozen=True)
class Detections:
    """N boxes of a model before suppression."""

    corners: Floats
    """x1, y1, x2, y2 in pixels of the input: N×4."""
    scores: Floats
    """N values in 0..1."""
    labels: npt.NDArray[np.intp]
    """Indexes of their classes: N values."""
    is_final: bool = False
    """Whether the model has suppressed overlapping boxes itself, or gives one box for each object."""
    keypoints: Floats | None = None
    """x and y in pixels of the input, and score: N×K×3; None for a model without them."""
    coefficients: Floats | None = None
    """Weights of the prototypes of masks, N×P; None for a model without masks."""
    prototypes: Floats | None = None
    """P maps over the input, P×H×W."""


class Detector:
    """What all detectors have in common: thresholds, suppression, names of classes, and the conversion to the picture's
    pixels. A subclass gives `fits` and `find`."""

    name: ClassVar[Decoder]
    preprocess: ClassVar[Preprocess]
    usual_size: ClassVar[Size]
    other_channels: ClassVar[int | None] = None
    """Channels of the first output that are not classes: box, object score; None for a detector of faces."""

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        if self.other_channels is None:
            return FACE
        return COCO if len(COCO) + self.other_channels in ports[0].shape[1:] else ()

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.fits`."""
        raise NotImplementedError

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        return True

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        """Returns boxes with a score of at least `floor`.

        Args:
            outputs: by name, including the batch.
            size: of the input.
        """
        raise NotImplementedError

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        floor = min(options.candidate_threshold, options.score_threshold)
        with np.errstate(all="ignore"):
            detections = self.find(outputs, size, floor)
        threshold = 1.0 if detections.is_final else options.nms_threshold
        kept = suppress_overlaps(detections.corners, detections.scores, detections.labels, threshold)
        corners = fit.to_source(detections.corners[kept])
        columns = corners.tolist(), detections.scores[kept].tolist(), detections.labels[kept].tolist()
        keypoints = _read_keypoints(detections, kept, fit)
        masks = _read_masks(detections, kept, fit, size, options.score_threshold)
        candidates = (
            Box(x1, y1, x2, y2, score, label, points, mask)
            for (x1, y1, x2, y2), score, label, points, mask in zip(*columns, keypoints, masks, strict=True)
        )
        return DecodedOutputs.of_candidates(candidates, options)


def _read_keypoints(detections: Detections, kept: npt.NDArray[np.intp], fit: Fit) -> Sequence[tuple[Keypoint, ...]]:
    """Returns the key points of the kept boxes in pixels of the picture; one that is not finite is 0, 0 with score
    0."""
    if detections.keypoints is None:
        return [()] * len(kept)
    points = detections.keypoints[kept]
    with np.errstate(all="ignore"):
        values = np.concatenate([fit.points_to_source(points[..., :2]), np.clip(points[..., 2:], 0, 1)], axis=-1)
    values[~np.isfinite(values).all(axis=-1)] = 0
    return [tuple(map(tuple, one)) for one in values.tolist()]


def _read_masks(
    detections: Detections, kept: npt.NDArray[np.intp], fit: Fit, size: Size, floor: float
) -> Sequence[tuple[Polygon, ...]]:
    """Returns the masks of the kept boxes with a score of at least `floor`, in pixels of the picture."""
    coefficients, prototypes = detections.coefficients, detections.prototypes
    if coefficients is None or prototypes is None:
        return [()] * len(kept)
    masks: list[tuple[Polygon, ...]] = []
    for at in kept:
        parts: list[Points] = []
        if detections.scores[at] >= floor:
            parts = mask_of(coefficients[at], prototypes, detections.corners[at], size)
        masks.append(tuple(polygon_in_picture(part, fit) for part in parts))
    return masks


def polygon_in_picture(points: Points, fit: Fit) -> Polygon:
    """Returns corners in pixels of the input as a polygon in pixels of the picture."""
    return tuple((x, y) for x, y in fit.points_to_source(points.astype(np.float32)).tolist())


def box_around(points: Points, fit: Fit, score: float, label: int) -> Box:
    """Returns what lies within corners as a box with a mask, in pixels of the picture.

    Args:
        points: corners in pixels of the input.
        fit: where the picture lies in the input.
        score: 0..1.
        label: index of the class.
    """
    polygon = polygon_in_picture(points, fit)
    xs, ys = zip(*polygon, strict=True)
    return Box(min(xs), min(ys), max(xs), max(ys), score, label, mask=(polygon,))


MOST = 1000
"""Number of best boxes that are compared; a detector with more of them detects noise."""


def suppress_overlaps(
    corners: Floats, scores: Floats, labels: npt.NDArray[np.intp], threshold: float
) -> npt.NDArray[np.intp]:
    """Suppresses overlapping boxes, and drops boxes with a corner or score that is not finite.

    Args:
        corners: x1, y1, x2, y2: N×4.
        scores: N values.
        labels: indexes of their classes: N values.
        threshold: overlap (IoU) above which the weaker of two boxes of a class is dropped.

    Returns:
        Indexes of the remaining boxes, best first.
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
    """Returns the intersection over union of a box with N others; 0 if both are empty."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    share: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return share


def box_and_score_ports(ports: Sequence[OutputSpec]) -> tuple[OutputSpec, OutputSpec] | None:
    """Returns the two outputs 1×N×4 and 1×N×C, C at least 2; None without. Further outputs may be beside `logits` and
    `pred_boxes`."""
    named = {port.name: port for port in ports}
    if len(ports) > 2 and {"logits", "pred_boxes"} <= named.keys():
        ports = [named["pred_boxes"], named["logits"]]
    if len(ports) != 2:
        return None
    boxes, scores = sorted(ports, key=lambda port: (port.shape[-1:] != (4,), bool(re.search("score|logit", port.name))))
    fit = len(boxes.shape) == 3 and boxes.shape[2] == 4 and scores.fits(None, boxes.shape[1], None)
    return (boxes, scores) if fit and scores.shape[2] != 1 else None
