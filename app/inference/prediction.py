"""The input and output of a prediction. Pure; the JSON forms are those on the network."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from app.inference.keypoints import Keypoint, visible_lines, visible_points
from app.inference.polygons import Polygon, flat, polygons_of
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:  # the control plane passes predictions on without computing with them
    import numpy as np
    import numpy.typing as npt

Picture: TypeAlias = "npt.NDArray[np.uint8]"
"""H×W×3 in RGB, or H×W in gray; 0..255."""


ENCLOSED_DECODER = "modelmill.decoder"
"""Key in the metadata of an ONNX file, whose value is the Python text of its own decoder."""
MOST_DECODER_SOURCE = 1 << 18
"""Bytes of that text."""
OWN_DECODER = re.compile(r"[a-z][a-z0-9_-]{1,39}")
"""Names of decoders."""


class Decoder(StrEnum):
    """How the outputs of a model are read. AUTO: determined by their names and shapes.

    Decoder(name) is also that of a package, which need not be installed here: see `app.inference.installed_decoders`.
    """

    AUTO = "auto"
    ENCLOSED = "enclosed"
    """The one in the model's own file: see `app.inference.decoders.enclosed`."""
    CLASSIFIER = "classifier"
    ULTRAFACE = "ultraface"
    YUNET = "yunet"
    FASTESTDET = "fastestdet"
    YOLOX = "yolox"
    YOLOV5 = "yolov5"
    YOLOV8 = "yolov8"
    YOLOV8_POSE = "yolov8-pose"
    YOLOV8_SEG = "yolov8-seg"
    NANODET = "nanodet"
    BLAZEFACE = "blazeface"
    SEGMENTATION = "segmentation"
    TEXT_DETECTION = "text-detection"
    TEXT_RECOGNITION = "text-recognition"
    SCRFD = "scrfd"
    RETINAFACE = "retinaface"
    SSD = "ssd"
    DETR = "detr"
    RTDETR = "rtdetr"

    @classmethod
    def _missing_(cls, value: object) -> Decoder | None:
        if not isinstance(value, str) or not OWN_DECODER.fullmatch(value):
            return None
        decoder = str.__new__(cls, value)
        decoder._name_, decoder._value_ = value.upper(), value
        return decoder

    @property
    def is_bundled(self) -> bool:
        """Whether it is one of the product."""
        return self in _DECODER_NAMES

    @property
    def display_name(self) -> str:
        """The name of the family as its authors write it; pages translate those that are no names of a model."""
        return _DECODER_NAMES.get(self, self.value)


_DECODER_NAMES = {
    Decoder.AUTO: "automatic",
    Decoder.ENCLOSED: "in the model's file",
    Decoder.CLASSIFIER: "classifier",
    Decoder.ULTRAFACE: "UltraFace",
    Decoder.YUNET: "YuNet",
    Decoder.FASTESTDET: "FastestDet",
    Decoder.YOLOX: "YOLOX",
    Decoder.YOLOV5: "YOLOv5, v7",
    Decoder.YOLOV8: "YOLOv8, v9, v11",
    Decoder.YOLOV8_POSE: "YOLOv8, v11 pose",
    Decoder.YOLOV8_SEG: "YOLOv8, v11 seg",
    Decoder.NANODET: "NanoDet, NanoDet-Plus",
    Decoder.BLAZEFACE: "BlazeFace",
    Decoder.SEGMENTATION: "semantic segmentation",
    Decoder.TEXT_DETECTION: "text detection (DB)",
    Decoder.TEXT_RECOGNITION: "text recognition (CTC)",
    Decoder.SCRFD: "SCRFD",
    Decoder.RETINAFACE: "RetinaFace",
    Decoder.SSD: "SSD",
    Decoder.DETR: "DETR",
    Decoder.RTDETR: "RT-DETR, D-FINE, RF-DETR",
}


@dataclass(frozen=True)
class Figure:
    """What is drawn of an object beside its box, in the pixels of its box."""

    points: tuple[tuple[float, float], ...]
    lines: tuple[tuple[float, float, float, float], ...]
    polygons: tuple[Polygon, ...]


MOST_TEXT = 500
"""Characters of what is written in a box."""


@dataclass(frozen=True, slots=True)
class Box:
    """A detected object; corners are in pixels of the source picture."""

    x1: float
    y1: float
    x2: float
    y2: float
    score: float
    """0..1."""
    label: int = 0
    """Index of the class."""
    keypoints: tuple[Keypoint, ...] = ()
    """In the model's order; empty for a model without them."""
    mask: tuple[Polygon, ...] = ()
    """Outlines of its parts, the largest first; empty for a model without masks, and for candidates."""
    text: str = ""
    """What is written there; empty for a model that reads no text."""

    def moved(self, x: float, y: float) -> Box:
        """Returns the object shifted by this many pixels."""
        keypoints = tuple((px + x, py + y, score) for px, py, score in self.keypoints)
        mask = tuple(tuple((px + x, py + y) for px, py in polygon) for polygon in self.mask)
        corners = self.x1 + x, self.y1 + y, self.x2 + x, self.y2 + y
        return Box(*corners, self.score, self.label, keypoints, mask, self.text)

    def scaled(self, ratio: float) -> Box:
        """Returns the object in a picture of another size, relative to this one."""
        keypoints = tuple((x * ratio, y * ratio, score) for x, y, score in self.keypoints)
        mask = tuple(tuple((x * ratio, y * ratio) for x, y in polygon) for polygon in self.mask)
        corners = self.x1 * ratio, self.y1 * ratio, self.x2 * ratio, self.y2 * ratio
        return Box(*corners, self.score, self.label, keypoints, mask, self.text)

    @property
    def figure(self) -> Figure:
        """The visible key points and the mask, to be drawn."""
        return Figure(visible_points(self.keypoints), visible_lines(self.keypoints), self.mask)

    def keypoints_json(self) -> list[list[float]]:
        """Returns [[x, y, score], …]."""
        return [[round(x, 2), round(y, 2), round(score, 3)] for x, y, score in self.keypoints]

    def to_json(self) -> list[float]:
        """Returns [x1, y1, x2, y2, score, label]; key points and masks have lists of their own."""
        return [*(round(v, 2) for v in (self.x1, self.y1, self.x2, self.y2)), round(self.score, 5), self.label]


@dataclass(frozen=True)
class Prediction:
    """The answer of a model to a picture."""

    boxes: tuple[Box, ...] = ()
    """Boxes with at least score_threshold, after suppression."""
    candidates: tuple[Box, ...] = ()
    """Boxes with at least candidate_threshold, after suppression; they include `boxes`."""
    probabilities: tuple[float, ...] = ()
    """Of a classifier, by class, summing to 1; empty for a detector."""
    ms: float = 0.0
    """Milliseconds for preparing, running and reading, without decoding the picture."""
    runtime: str = ""
    """What really ran it, see Predictor.runtime."""

    @property
    def label(self) -> int | None:
        """The most probable class of a classifier."""
        return self.probabilities.index(max(self.probabilities)) if self.probabilities else None

    def to_json(self) -> JsonObject:
        """Returns the answer without candidates, which are only for mining where the model runs."""
        return {
            "boxes": [box.to_json() for box in self.boxes],
            **details_of(self.boxes),
            "probabilities": [round(p, 6) for p in self.probabilities],
            "ms": round(self.ms, 3),
            "runtime": self.runtime,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Prediction:
        """Reads the result of to_json.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        return Prediction(
            boxes=boxes_of(data["boxes"], data),
            probabilities=tuple(float(p) for p in data["probabilities"]),
            ms=float(data["ms"]),
            runtime=str(data.get("runtime", "")),
        )


def details_of(boxes: Sequence[Box]) -> JsonObject:
    """Returns {"keypoints": for each box [[x, y, score], …], "masks": for each box [[x, y, x, y, …], …], "texts": for
    each box what is written there}, each only if some box has any."""
    keypoints, masks = any(box.keypoints for box in boxes), any(box.mask for box in boxes)
    return {
        **({"keypoints": [box.keypoints_json() for box in boxes]} if keypoints else {}),
        **({"masks": [flat(box.mask) for box in boxes]} if masks else {}),
        **({"texts": [box.text for box in boxes]} if any(box.text for box in boxes) else {}),
    }


def boxes_of(rows: Sequence[Sequence[float]], details: Mapping[str, Any]) -> tuple[Box, ...]:
    """Reads boxes.

    Args:
        rows: results of Box.to_json.
        details: result of details_of; may have other entries.

    Raises:
        TypeError, ValueError: It is something else.
    """
    empty: list[Any] = [()] * len(rows)
    names = "keypoints", "masks", "texts"
    keypoints, masks, texts = (empty if details.get(name) is None else details[name] for name in names)
    boxes = list[Box]()
    for row, points, mask, text in zip(rows, keypoints, masks, texts, strict=True):
        x1, y1, x2, y2, score, label = map(float, row)
        read = tuple((float(x), float(y), float(share)) for x, y, share in points)
        written = str(text)[:MOST_TEXT] if text else ""
        boxes.append(Box(x1, y1, x2, y2, score, int(label), read, polygons_of(mask), written))
    return tuple(boxes)
