"""How right the float and the quantized model are, side by side, on pictures whose labels were sent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from app.conversion.toolchains.host.average_precision import AveragePrecision
from app.conversion.toolchains.host.inputs import Samples
from app.conversion.toolchains.host.runtime import Session, numeric_outputs, run
from app.conversion.toolchains.host.task_metrics import THRESHOLDS, UNREADABLE, Outputs, detector_of
from app.conversion.toolchains.samples.labels import Labels, PictureLabels
from app.inference.decoders import ModelFamily
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Size, fit_of

ALL_BOXES = replace(THRESHOLDS, score_threshold=0.01, candidate_threshold=0.01)
"""Average precision weighs boxes by their scores, so weak ones count, too."""


class _Meter(Protocol):
    def add(self, truth: PictureLabels, outputs: Outputs) -> None: ...

    def values(self) -> dict[str, float] | None:
        """By the metric's name, 0..1; None where there was nothing to be right about."""


@dataclass(frozen=True)
class LabeledQuality:
    """Both models by one metric, 0..1.

    Args:
        n: Labeled pictures that were run.
        are_unseen: They set no range.
    """

    metric: str
    float_value: float
    int8_value: float
    n: int
    are_unseen: bool

    def to_json(self) -> dict[str, Any]:
        values = {"float": round(self.float_value, 4), "int8": round(self.int8_value, 4)}
        return {"metric": self.metric, **values, "n": self.n, "are_unseen": self.are_unseen}


def labeled_quality(
    model: Any,
    sessions: tuple[Session, Session],
    labels: Labels,
    samples: Samples,
    preprocess: Preprocess,
    unseen: Collection[int],
) -> list[LabeledQuality]:
    """Run both models over the labeled pictures.

    Args:
        model: The float model (onnx.ModelProto).
        sessions: Of the float and of the quantized model.
        unseen: Places of the samples that set no range; where some of them have labels, they alone are run.

    Returns:
        A row a metric; none where no decoder reads the model's outputs.
    """
    known = detector_of(model) if labels.kind == "map" else None
    if labels.kind == "map" and known is None:
        return []
    meters = [_Boxes(*known, preprocess) if known else _Classes() for _ in sessions]
    names = numeric_outputs(sessions[0])
    places = _places(labels, samples)
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


def _places(labels: Labels, samples: Samples) -> set[int]:
    return {place for place, sample in enumerate(samples) if labels.of(sample.name) is not None}


class _Classes:
    """How often the class with the highest value is the right one."""

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
