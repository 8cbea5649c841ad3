"""The accuracy of the float and the quantized model on labeled pictures, side by side, and the average precision of a
detector by COCO's rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.host.inputs import Samples
from app.conversion.toolchains.host.task_metrics import THRESHOLDS, Outputs
from app.conversion.toolchains.host.task_recognition import UNREADABLE, detector_of
from app.conversion.toolchains.samples.labels import LabeledBox, Labels, PictureLabels
from app.inference.decoders import ModelFamily
from app.inference.decoders.base import overlap
from app.inference.prediction import Box
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Size, fit_of
from app.inference.runtimes.sessions import Session, numeric_outputs, run
from app.kit.text.json_values import JsonObject

ALL_BOXES = replace(THRESHOLDS, score_threshold=0.01, candidate_threshold=0.01)
"""Average precision weights boxes by their scores, so weak ones count, too."""


class Meter(Protocol):
    """Measures the accuracy of one model."""

    def add(self, truth: PictureLabels, outputs: Outputs) -> None: ...

    def values(self) -> dict[str, float] | None:
        """Returns metrics by name, 0..1; None if there was nothing to compare."""


@dataclass(frozen=True)
class LabeledQuality:
    """One metric of both models, 0..1.

    Args:
        n: number of labeled pictures that were run.
        are_unseen: they are not among the pictures that set the ranges.
    """

    metric: str
    float_value: float
    int8_value: float
    n: int
    are_unseen: bool

    def to_json(self) -> JsonObject:
        values = {"float": round(self.float_value, 4), "int8": round(self.int8_value, 4)}
        return {"metric": self.metric, **values, "n": self.n, "are_unseen": self.are_unseen}


def measure_labeled_quality(
    model: Any,
    sessions: tuple[Session, Session],
    labels: Labels,
    samples: Samples,
    preprocess: Preprocess,
    unseen: Collection[int],
) -> list[LabeledQuality]:
    """Run both models over the labeled pictures.

    Args:
        model: the float model (onnx.ModelProto).
        sessions: of the float and of the quantized model.
        unseen: indexes of the samples that set no range; if some of them have labels, only these are run.

    Returns:
        A row for each metric; empty if no decoder reads the model's outputs.
    """
    meters = [meter for _ in sessions if (meter := meter_of_labels(model, labels, preprocess)) is not None]
    if not meters:
        return []
    names = numeric_outputs(sessions[0])
    places = _collect_places(labels, samples)
    chosen = places & set(unseen) or places
    for place, sample in enumerate(samples):
        truth = labels.of(sample.name) if place in chosen else None
        if truth is None:
            continue
        for meter, session in zip(meters, sessions, strict=True):
            meter.add(truth, run(session, sample.arrays, names))
    exact, rounded = (meter.values() for meter in meters)
    are_unseen = chosen <= set(unseen)
    return [
        LabeledQuality(metric, value, (rounded or {})[metric], len(chosen), are_unseen)
        for metric, value in (exact or {}).items()
    ]


def meter_of_labels(model: Any, labels: Labels, preprocess: Preprocess) -> Meter | None:
    """Returns a meter for the labels; None if no decoder reads boxes from the model's outputs."""
    if labels.kind == "top1":
        return _Classes()
    known = detector_of(model)
    return None if known is None else _Boxes(*known, preprocess)


def _collect_places(labels: Labels, samples: Samples) -> set[int]:
    return {place for place, sample in enumerate(samples) if labels.of(sample.name) is not None}


class _Classes:
    """Counts how often the class with the highest value is the correct one."""

    def __init__(self) -> None:
        self._are_right: list[bool] = []

    def add(self, truth: PictureLabels, outputs: Outputs) -> None:
        values = next(iter(outputs.values()))
        self._are_right.append(int(values.reshape(values.shape[0], -1)[0].argmax()) == truth.label)

    def values(self) -> dict[str, float] | None:
        return {"top-1": float(np.mean(self._are_right))} if self._are_right else None


class _Boxes:
    def __init__(self, family: ModelFamily, size: Size, preprocess: Preprocess) -> None:
        self._family, self._size, self._resize = family, size, preprocess.resize
        self._precision = AveragePrecision()

    def add(self, truth: PictureLabels, outputs: Outputs) -> None:
        fit = fit_of(truth.size, self._size, self._resize)
        try:
            boxes = self._family.read(outputs, fit, self._size, ALL_BOXES).boxes
        except UNREADABLE:
            boxes = ()
        self._precision.add(truth.boxes, boxes)

    def values(self) -> dict[str, float] | None:
        values = self._precision.values()
        return None if values is None else {"mAP@.5:.95": values[0], "mAP@.5": values[1]}


OVERLAPS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
BOXES_MOST = 100
"""Number of best boxes that count, for each picture and class."""

Column = npt.NDArray[np.float64]


class AveragePrecision:
    """Accumulates over pictures, keeping only scores and matches."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[float, Column, Column]]] = defaultdict(list)
        self._counts: dict[int, int] = defaultdict(int)

    def add(self, truth: Sequence[LabeledBox], boxes: Sequence[Box]) -> None:
        """Adds one picture: its labels, and the detected boxes. Corners of both are in its pixels."""
        for each in truth:
            self._counts[each.label] += not each.is_crowd
        for label in {box.label for box in boxes}:
            own = sorted((box for box in boxes if box.label == label), key=lambda box: -box.score)[:BOXES_MOST]
            # labels before crowds, so that a box belongs to a crowd only if it matches no label
            those = sorted((each for each in truth if each.label == label), key=lambda each: each.is_crowd)
            self._rows[label] += _match_boxes(those, own)

    def values(self) -> tuple[float, float] | None:
        """Returns two values in 0..1: the mean over overlaps of .5 to .95, and that at .5 alone; None without
        labels."""
        labels = [label for label, count in self._counts.items() if count]
        if not labels:
            return None
        mean = np.mean([self._of_class(label) for label in labels], axis=0)
        return float(mean.mean()), float(mean[0])

    def _of_class(self, label: int) -> Column:
        """Returns the average precision of one class, at each overlap."""
        rows = sorted(self._rows[label], key=lambda row: -row[0])
        if not rows:
            return np.zeros(len(OVERLAPS))
        right = np.cumsum([row[1] for row in rows], axis=0)
        wrong = np.cumsum([row[2] for row in rows], axis=0)
        recall = right / self._counts[label]
        precision = right / np.maximum(right + wrong, np.finfo(float).eps)
        best_beyond = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
        values = []
        for column in range(len(OVERLAPS)):
            places = np.searchsorted(recall[:, column], RECALLS)
            values.append(np.append(best_beyond[:, column], 0.0)[np.minimum(places, len(rows))].mean())
        return np.array(values)


def _match_boxes(truth: Sequence[LabeledBox], boxes: Sequence[Box]) -> list[tuple[float, Column, Column]]:
    """Returns for each box its score and, at each overlap, whether it is correct and whether it is wrong."""
    corners = np.array([each.corners for each in truth], np.float64).reshape(-1, 4)
    is_crowd = np.array([each.is_crowd for each in truth], bool)
    taken = np.zeros((len(OVERLAPS), len(truth)), bool)
    rows = []
    for box in boxes:
        own = np.array([box.x1, box.y1, box.x2, box.y2], np.float64)
        shares = _compute_overlaps(own, corners, is_crowd)
        right, wrong = np.zeros(len(OVERLAPS)), np.zeros(len(OVERLAPS))
        for level, least in enumerate(OVERLAPS):
            free = np.where(is_crowd | ~taken[level], shares, -1.0)
            exact = np.where(is_crowd, -1.0, free)
            best = int((exact if exact.max(initial=-1.0) >= least else free).argmax()) if len(truth) else -1
            if best < 0 or free[best] < least:
                wrong[level] = 1.0
            elif not is_crowd[best]:
                right[level], taken[level, best] = 1.0, True
        rows.append((box.score, right, wrong))
    return rows


def _compute_overlaps(box: Column, corners: Column, is_crowd: npt.NDArray[np.bool_]) -> Column:
    """Returns the overlap with each label; for a crowd the share of the box that lies in it."""
    if not len(corners):
        return np.zeros(0)
    sides = np.clip(np.minimum(box[2:], corners[:, 2:]) - np.maximum(box[:2], corners[:, :2]), 0, None)
    area = max(float(np.prod(box[2:] - box[:2])), np.finfo(float).eps)
    shares: Column = np.where(is_crowd, sides.prod(axis=1) / area, overlap(box, corners))
    return shares
