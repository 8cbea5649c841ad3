"""How well a quantized model preserves the answers of its float model, in terms of its task; no labels are needed.

The decoders used for inference read a detector's outputs. Agreement is 0..1 over all added pictures: 1 if every answer
is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from app.inference.agreement import likeness
from app.inference.decoders import ModelFamily
from app.inference.decoders.base import overlap
from app.inference.decoders.classifier import may_be_probabilities
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import Fit, Size
from app.kit.text.json_values import JsonObject

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
Kind = Literal["top1", "box_f1", "mask_iou", "keypoints", "cosine", "text"]
FINDERS: frozenset[Kind] = frozenset({"box_f1", "keypoints", "mask_iou", "text"})
"""Tasks of models that find something in some pictures and nothing in others."""
THRESHOLDS = PredictorOptions(score_threshold=0.35, candidate_threshold=0.35, nms_threshold=0.45)
KINDS: Mapping[Decoder, Kind] = {Decoder.YOLOV8_POSE: "keypoints", Decoder.YOLOV8_SEG: "mask_iou"}
"""Of families that answer more than boxes."""
MATCH_IOU = 0.5
"""Boxes of one class with at least this overlap are the same."""
NEAR = 0.05
"""Key points are the same if their distance is below this share of the map's diagonal."""
CLASSES_LEAST = 10
"""A row with fewer values might be measurements instead of logits."""


@dataclass(frozen=True)
class TaskAgreement:
    """Agreement of the quantized model's answers with the float model's."""

    kind: Kind
    float_agreement: float | None
    """0..1; None if no picture had an answer."""
    n: int
    """Number of pictures."""
    score_error: float | None = None
    """Mean difference between the scores of matched boxes, 0..1."""
    answered: int | None = None
    """Number of pictures in which the float model finds something; None where answers cannot be read."""

    @property
    def shows_nothing(self) -> bool:
        """Whether the float model, which looks for something, finds nothing in any picture."""
        return self.kind in FINDERS and self.n > 0 and self.answered == 0

    def to_json(self) -> JsonObject:
        """Returns judgement.task of the BIE report."""
        rounded = {
            name: None if value is None else round(value, 4)
            for name, value in (("float_agreement", self.float_agreement), ("score_error", self.score_error))
        }
        return {"kind": self.kind, "n": self.n, "answered": self.answered, **rounded}


class TaskMeter(Protocol):
    """Accumulates over pictures without keeping outputs."""

    def add(self, expected: Outputs, actual: Outputs) -> None:
        """Adds one picture's outputs, of the float and of the quantized model, by name and including the batch axis."""

    def agreement(self) -> TaskAgreement:
        """Returns the agreement over all pictures so far."""


class Compare(Protocol):
    def __call__(self, expected: Outputs, actual: Outputs) -> float | None:
        """Returns 0..1 for one picture; None if the float model gives no answer."""


class ShareMeter:
    """Takes the mean over pictures."""

    def __init__(self, kind: Kind, compare: Compare) -> None:
        self._kind, self._compare = kind, compare
        self._shares: list[float] = []
        self._count = 0

    def add(self, expected: Outputs, actual: Outputs) -> None:
        self._count += 1
        share = self._compare(expected, actual)
        if share is not None:
            self._shares.append(share)

    def agreement(self) -> TaskAgreement:
        mean = float(np.mean(self._shares)) if self._shares else None
        return TaskAgreement(self._kind, mean, self._count, answered=len(self._shares))


def _compare_class(expected: Outputs, actual: Outputs) -> float | None:
    one, other = (_get_row(outputs) for outputs in (expected, actual))
    if len(one) < CLASSES_LEAST and not may_be_probabilities(one):
        return None
    return float(one.argmax() == other.argmax())


def _get_row(outputs: Outputs) -> Array:
    """Returns the first row of the first output."""
    values = next(iter(outputs.values()))
    row: Array = values.reshape(values.shape[0], -1)[0].astype(np.float64)
    return row


def _compare_direction(expected: Outputs, actual: Outputs) -> float | None:
    one, other = _get_row(expected), _get_row(actual)
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norm if norm else None


def _compare_masks(expected: Outputs, actual: Outputs) -> float | None:
    """Returns the mean intersection over union of the classes in the float model's map; of a single mask, that of its
    area."""
    one, other = class_map(expected), class_map(actual)
    classes = [label for label in np.unique(one) if label or one.max() > 1]
    shares = [float(((one == c) & (other == c)).sum() / ((one == c) | (other == c)).sum()) for c in classes]
    return float(np.mean(shares)) if shares else None


def _compare_points(expected: Outputs, actual: Outputs) -> float | None:
    one, other = key_points(expected), key_points(actual)
    return float((np.linalg.norm(one - other, axis=1) <= NEAR).mean()) if len(one) else None


def _compare_text(expected: Outputs, actual: Outputs) -> float | None:
    one, other = line_of_text(expected), line_of_text(actual)
    return float(one == other) if one else None


class BoxMeter:
    """F1 of the quantized model's boxes, with the float model's as ground truth, and the error of their scores. A
    matched box with a mask or key points counts as much as they are alike."""

    def __init__(self, family: ModelFamily, size: Size) -> None:
        self._family, self._fit, self._size = family, Fit(size, size), size
        self._missed = self._extra = self._count = self._answered = self._pairs = 0
        self._matched = 0.0
        self._errors: list[float] = []

    def add(self, expected: Outputs, actual: Outputs) -> None:
        self._count += 1
        truth, boxes = self._read_boxes(expected), self._read_boxes(actual)
        self._answered += bool(truth)
        pairs = match_boxes(truth, boxes)
        self._pairs += len(pairs)
        self._matched += sum(likeness(one, other) for one, other in pairs)
        self._missed += len(truth) - len(pairs)
        self._extra += len(boxes) - len(pairs)
        self._errors += [abs(one.score - other.score) for one, other in pairs]

    def agreement(self) -> TaskAgreement:
        total = 2 * self._pairs + self._missed + self._extra
        error = float(np.mean(self._errors)) if self._errors else None
        share = 2 * self._matched / total if total else None
        return TaskAgreement(KINDS.get(self._family.name, "box_f1"), share, self._count, error, self._answered)

    def _read_boxes(self, outputs: Outputs) -> Answer:
        return self._family.read(outputs, self._fit, self._size, THRESHOLDS).boxes


def match_boxes(truth: Answer, boxes: Answer) -> list[tuple[Box, Box]]:
    """Pairs boxes of one class that overlap enough; the best score chooses first, and each box is used once."""
    left = list(truth)
    pairs = []
    for box in sorted(boxes, key=lambda each: -each.score):
        same = [other for other in left if other.label == box.label]
        if not same:
            continue
        shares = overlap(_compute_corners(box), np.stack([_compute_corners(other) for other in same]))
        best = int(shares.argmax())
        if shares[best] >= MATCH_IOU:
            pairs.append((same[best], box))
            left.remove(same[best])
    return pairs


def _compute_corners(box: Box) -> npt.NDArray[np.floating]:
    return np.array([box.x1, box.y1, box.x2, box.y2], dtype=np.float64)


Answer = Sequence[Box]


def class_map(outputs: Outputs) -> npt.NDArray[np.intp]:
    """Returns the class of every pixel, H×W, from the last map of the outputs: the channel with the highest value, or
    for a single channel whether it is above one half (as a logit, if its values exceed 0..1)."""
    values = list(outputs.values())[-1].astype(np.float64)
    maps = values.reshape(-1, *values.shape[-2:])
    if len(maps) > 1:
        highest: npt.NDArray[np.intp] = maps.argmax(axis=0)
        return highest
    is_share = maps[0].min() >= -0.05 and maps[0].max() <= 1.05
    mask: npt.NDArray[np.intp] = (maps[0] > (0.5 if is_share else 0.0)).astype(np.intp)
    return mask


def key_points(outputs: Outputs) -> npt.NDArray[np.float64]:
    """Returns points x, y in 0..1 of the map, N×2: the peaks of heat maps, the peaks of two rows each, or rows y, x,
    score."""
    arrays = [values.astype(np.float64)[0] for values in outputs.values()]
    if len(arrays) == 2:
        places = [values.argmax(axis=-1) / values.shape[-1] for values in arrays]
        return np.stack(places, axis=-1)
    values = arrays[0]
    if values.shape[-1] == 3:
        points: npt.NDArray[np.float64] = values.reshape(-1, 3)[:, 1::-1]
        return points
    height, width = values.shape[-2:]
    peaks = values.reshape(len(values), -1).argmax(axis=1)
    return np.stack([peaks % width / width, peaks // width / height], axis=1)


def line_of_text(outputs: Outputs) -> tuple[int, ...]:
    """Returns the characters' indexes by connectionist temporal classification: repetitions count once, and 0 is a
    blank."""
    values = next(iter(outputs.values()))
    best = values.reshape(-1, values.shape[-1]).argmax(axis=1)
    return tuple(int(label) for label, _ in groupby(best) if label)


COMPARISONS: Mapping[str, tuple[Kind, Compare]] = {
    "top1": ("top1", _compare_class),
    "mask": ("mask_iou", _compare_masks),
    "keypoints": ("keypoints", _compare_points),
    "cosine": ("cosine", _compare_direction),
    "text": ("text", _compare_text),
}
"""By the task of a model family."""


def meter_of(task: str) -> TaskMeter | None:
    return ShareMeter(*COMPARISONS[task]) if task in COMPARISONS else None
