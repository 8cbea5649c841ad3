"""Stages that find things on a picture: faces, or whatever a detector knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from app.edge.video.stages.base import TRACK_IDS, ModelFile, picture_of
from app.edge.video.stages.parameters import PREDICTOR, predictor_options, region_of, words
from app.inference.annotations import draw as draw_boxes
from app.inference.decoders.class_names import FACE
from app.inference.polygons import polygons_of
from app.inference.prediction import Box, Decoder, Picture, details_of
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.inference.region import Crop
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.video.model.kinds import Metric, StageKind, Type

FACE_SCORE, OBJECT_SCORE = 0.6, 0.4
BOXES = frozenset(Decoder) - {Decoder.CLASSIFIER}
"""The decoders that answer boxes."""


class _Detector(ABC):
    """One model that answers boxes."""

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str], score: float) -> None:
        file = models[0]
        self.region = region_of(parameters)
        self.predictor: Predictor = open_predictor(
            file.card, file.path, file.twin, predictor_options(parameters, score)
        )

    @property
    def runtime(self) -> str:
        return self.predictor.described_runtime

    def detected(self, inputs: Mapping[str, Any]) -> tuple[Box, ...]:
        part, crop = self._cut_part(picture_of(inputs))
        return _in_source(self.predictor.predict(part).boxes, crop)

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.outputs(self.detected(inputs))

    def run_several(self, several: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | ModelmillError]:
        parts = [self._cut_part(picture_of(inputs)) for inputs in several]
        predictions = self.predictor.predict_several([part for part, _ in parts])
        return [
            each if isinstance(each, ModelmillError) else self.outputs(_in_source(each.boxes, crop))
            for each, (_, crop) in zip(predictions, parts, strict=True)
        ]

    @abstractmethod
    def outputs(self, boxes: tuple[Box, ...]) -> Mapping[str, Any]:
        """Returns the outputs of the kind for the boxes of a picture."""

    def _cut_part(self, picture: Picture) -> tuple[Picture, Crop | None]:
        return self.region.of(picture) if self.region else (picture, None)

    def name(self, box: Box) -> str:
        labels = self.predictor.labels
        if box.text:
            return box.text
        return labels[box.label] if 0 <= box.label < len(labels) else str(box.label)


class FaceDetection(_Detector):
    """Boxes of faces, best first. score_threshold: 0.6 unless given. region: as of detection."""

    kind: ClassVar[StageKind] = StageKind(
        "face_detection",
        {"image": Type.IMAGE},
        {"bbox": Type.BOXES, "prob": Type.SCORES, "count_result": Type.COUNTS},
        metric=Metric.IOU,
        compared="bbox",
        tracks="bbox",
        boxes_are=FACE[0],
        parameters=PREDICTOR,
        decoders=BOXES,
    )

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        super().__init__(models, parameters, FACE_SCORE)

    def outputs(self, boxes: tuple[Box, ...]) -> Mapping[str, Any]:
        return {**_write_boxes(boxes), "count_result": {"total": len(boxes)}}

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        boxes = to_drawn_boxes(outputs["bbox"], outputs.get("prob") or ())
        return draw_boxes(picture, boxes, FACE, outputs.get(TRACK_IDS, ()))


class Detection(_Detector):
    """Boxes of things with their names. classes: those that count, as `car,person`; all unless given. region: the part
    that is looked at, as x1,y1,x2,y2 in shares of the picture."""

    kind: ClassVar[StageKind] = StageKind(
        "detection",
        {"image": Type.IMAGE},
        {
            "bbox": Type.BOXES,
            "prob": Type.SCORES,
            "label": Type.LABELS,
            "count_result": Type.COUNTS,
            "image": Type.IMAGE,
            "keypoints": Type.KEYPOINTS,
            "masks": Type.MASKS,
        },
        model_dependent=frozenset({"keypoints", "masks"}),
        metric=Metric.IOU,
        compared="bbox",
        tracks="bbox",
        draws=True,
        parameters=PREDICTOR | {"classes"},
        decoders=BOXES,
    )

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        super().__init__(models, parameters, OBJECT_SCORE)
        self.classes = words(parameters, "classes")

    def outputs(self, boxes: tuple[Box, ...]) -> Mapping[str, Any]:
        boxes = tuple(box for box in boxes if not self.classes or self.name(box).lower() in self.classes)
        labels = [self.name(box) for box in boxes]
        counts = {
            **dict.fromkeys(sorted(self.classes), 0),
            **Counter(_format_count(label, self.classes) for label in labels),
        }
        named = {"label": labels, "count_result": {**counts, "total": len(boxes)}}
        details = details_of(boxes)
        details.pop("texts", None)  # they are the labels
        return {**_write_boxes(boxes), **named, **details}

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        labels = [str(label) for label in outputs.get("label") or ()]
        names = sorted(set(labels))
        numbers = [names.index(label) for label in labels]
        details = outputs.get("keypoints") or (), outputs.get("masks") or ()
        boxes = to_drawn_boxes(outputs["bbox"], outputs.get("prob") or (), numbers, *details)
        return draw_boxes(picture, boxes, names, outputs.get(TRACK_IDS, ()))


def _in_source(boxes: tuple[Box, ...], crop: Crop | None) -> tuple[Box, ...]:
    return crop.in_source(boxes) if crop else boxes


def _format_count(label: str, classes: frozenset[str]) -> str:
    return label.lower() if classes else label


def _write_boxes(boxes: Sequence[Box]) -> JsonObject:
    """bbox and prob as the requirement has them."""
    return {
        "bbox": [[round(v, 2) for v in (box.x1, box.y1, box.x2, box.y2)] for box in boxes],
        "prob": [round(box.score, 5) for box in boxes],
    }


def to_drawn_boxes(
    bbox: Sequence[Sequence[float]],
    prob: Sequence[float] = (),
    labels: Sequence[int] = (),
    keypoints: Sequence[Sequence[Sequence[float]]] = (),
    masks: Sequence[Sequence[Sequence[float]]] = (),
) -> list[Box]:
    """Returns boxes to be drawn.

    Args:
        bbox: x1, y1, x2, y2 of each.
        prob: scores; a box without one is drawn with 1.
        labels: indexes of classes; 0 for a box without one.
        keypoints: x, y, score of the key points of each box; may be empty.
        masks: polygons x, y, x, y, … of each box; may be empty.
    """
    labelled = []
    for index, (x1, y1, x2, y2) in enumerate(bbox):
        score = prob[index] if index < len(prob) else 1.0
        points = tuple((x, y, share) for x, y, share in keypoints[index]) if index < len(keypoints) else ()
        mask = polygons_of(masks[index]) if index < len(masks) else ()
        labelled.append(Box(x1, y1, x2, y2, score, labels[index] if index < len(labels) else 0, points, mask))
    return labelled
