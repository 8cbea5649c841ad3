"""The answers of both models to each sample, and its true labels. The JSON form is stored in the object store. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.inference.prediction import Box, Prediction, boxes_of
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class GroundTruth:
    """The truth about a sample: one of both, or neither."""

    label: int | None = None
    """The class of the whole picture."""
    boxes: tuple[Box, ...] | None = None
    """The objects in the picture; their scores have no meaning."""


UNKNOWN = GroundTruth()


@dataclass(frozen=True)
class SamplePredictions:
    """The answers of both models to one sample."""

    name: str
    edge: Prediction
    """With its candidates, by which hard samples are recognized."""
    cloud: Prediction
    truth: GroundTruth = UNKNOWN

    def to_json(self) -> JsonObject:
        truth = self.truth
        return {
            "name": self.name,
            "edge": _to_json(self.edge),
            "cloud": _to_json(self.cloud),
            "label": truth.label,
            "boxes": None if truth.boxes is None else [box.to_json() for box in truth.boxes],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> SamplePredictions:
        """Reads the result of to_json.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        boxes = data["boxes"]
        truth = GroundTruth(data["label"], None if boxes is None else boxes_of(boxes, {}))
        return SamplePredictions(str(data["name"]), _read(data["edge"]), _read(data["cloud"]), truth)


def _to_json(prediction: Prediction) -> JsonObject:
    return {**prediction.to_json(), "candidates": [box.to_json() for box in prediction.candidates]}


def _read(data: Mapping[str, Any]) -> Prediction:
    plain = Prediction.from_json(data)
    candidates = boxes_of(data["candidates"], {})
    return Prediction(plain.boxes, candidates, plain.probabilities, plain.ms, plain.runtime)
