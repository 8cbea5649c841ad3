"""What models answer, in the JSON form that edge and cloud exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Box:
    """A detected object. Corners are in pixels of the picture."""

    x1: float
    y1: float
    x2: float
    y2: float
    score: float
    """0..1."""
    label: int = 0
    """Index of the class."""
    keypoints: tuple[tuple[float, float, float], ...] = ()
    """x and y in pixels of the picture, and score, of each; empty for a model without them."""
    mask: tuple[tuple[float, ...], ...] = ()
    """Polygons x, y, x, y, … in pixels of the picture; empty for a model without masks."""

    def to_json(self) -> list[float]:
        return [self.x1, self.y1, self.x2, self.y2, self.score, self.label]

    @staticmethod
    def from_json(data: Sequence[float]) -> Box:
        x1, y1, x2, y2, score, label = data
        return Box(float(x1), float(y1), float(x2), float(y2), float(score), int(label))


@dataclass(frozen=True)
class Prediction:
    """The answer of one model: boxes of a detector, or probabilities of a classifier."""

    boxes: tuple[Box, ...] = ()
    probabilities: tuple[float, ...] = ()
    """By class, summing to 1."""
    ms: float = 0.0
    """How long the model took."""

    @property
    def label(self) -> int | None:
        """The most probable class of a classifier; None for a detector."""
        return self.probabilities.index(max(self.probabilities)) if self.probabilities else None

    def to_json(self) -> dict[str, Any]:
        keypoints = [[list(point) for point in box.keypoints] for box in self.boxes]
        masks = [[list(part) for part in box.mask] for box in self.boxes]
        return {
            "boxes": [box.to_json() for box in self.boxes],
            **({"keypoints": keypoints} if any(keypoints) else {}),
            **({"masks": masks} if any(masks) else {}),
            "probabilities": list(self.probabilities),
            "ms": round(self.ms, 3),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Prediction:
        boxes = tuple(Box.from_json(box) for box in data["boxes"])
        if data.get("keypoints") is not None:
            boxes = tuple(
                replace(box, keypoints=tuple((float(x), float(y), float(score)) for x, y, score in points))
                for box, points in zip(boxes, data["keypoints"])
            )
        if data.get("masks") is not None:
            boxes = tuple(
                replace(box, mask=tuple(tuple(map(float, part)) for part in parts))
                for box, parts in zip(boxes, data["masks"])
            )
        return Prediction(boxes, tuple(map(float, data["probabilities"])), float(data.get("ms", 0.0)))


@dataclass(frozen=True)
class Outcome:
    """The final answer to one picture, and how it came about."""

    id: str
    source: str
    """Whose answer is final: edge, cloud, or edge_fallback when the cloud did not answer a hard sample in time."""
    final: Prediction
    is_hard: bool
    why: str
    """Why the sample is hard, or not."""
    edge: Prediction | None
    """The small model's answer; None when it did not run."""
    cloud: Prediction | None
    """The big model's answer; None when there is none."""
    edge_ms: float
    cloud_ms: float | None
    """From the upload queue to the answer."""
    error: str
    """Why the cloud's answer is missing; empty when it was not asked or has answered."""

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        edge, cloud = data.get("edge"), data.get("cloud")
        return Outcome(
            str(data["id"]),
            str(data["source"]),
            Prediction.from_json(data["final"]),
            bool(data["is_hard"]),
            str(data.get("why", "")),
            Prediction.from_json(edge) if edge else None,
            Prediction.from_json(cloud) if cloud else None,
            float(data.get("edge_ms", 0.0)),
            data.get("cloud_ms"),
            str(data.get("error", "")),
        )
