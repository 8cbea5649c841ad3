"""A stage that reads what is written in the boxes of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from app.edge.video.stages.base import TRACK_IDS, ModelFile, boxes_of, picture_of
from app.edge.video.stages.detection import to_drawn_boxes
from app.edge.video.stages.parameters import OF_MODELS, predictor_options
from app.inference.annotations import draw as draw_boxes
from app.inference.errors import ModelUnusable
from app.inference.polygons import polygons_of
from app.inference.prediction import Decoder, Picture
from app.inference.predictor_factory import open_predictor
from app.kit.errors import BadRequest
from app.video.model.kinds import Metric, StageKind, Type

SCORE = 0.5
UPRIGHT = 1.5
"""Lines that are higher than so many times their width are turned, as PP-OCR does."""


class TextRecognition:
    """The text in each box, with its confidence; a box with a mask of four corners, as text detection has it, is cut
    out along them. Boxes without a text of at least score_threshold, 0.5 unless given, are left out."""

    kind: ClassVar[StageKind] = StageKind(
        "text_recognition",
        {"image": Type.IMAGE, "bbox": Type.BOXES, "masks": Type.MASKS},
        {
            "bbox": Type.BOXES,
            "prob": Type.SCORES,
            "label": Type.LABELS,
            "count_result": Type.COUNTS,
            "image": Type.IMAGE,
        },
        optional=frozenset({"masks"}),
        metric=Metric.IOU,
        compared="bbox",
        tracks="bbox",
        draws=True,
        parameters=OF_MODELS | {"score_threshold"},
        decoders=frozenset({Decoder.AUTO, Decoder.TEXT_RECOGNITION}),
    )

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        file = models[0]
        self.predictor = open_predictor(file.card, file.path, file.twin, predictor_options(parameters, SCORE))
        if self.predictor.decoder is not Decoder.TEXT_RECOGNITION:
            raise ModelUnusable(
                f"{file.card.name} does not read text: its decoder is {self.predictor.decoder}",
                hint="Name a model of text recognition (CTC), or the decoder text-recognition.",
            )

    @property
    def runtime(self) -> str:
        return self.predictor.described_runtime

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        picture, boxes = picture_of(inputs), boxes_of(inputs)
        masks = inputs.get("masks") or [[]] * len(boxes)
        if len(masks) != len(boxes):
            raise BadRequest("The field masks is to be a list of polygons for each box.")
        image, kept = Image.fromarray(picture), list[tuple[list[float], float, str]]()
        for box, mask in zip(boxes.tolist(), masks, strict=True):
            line = _cut(image, box, mask)
            read = self.predictor.predict(line).boxes if min(line.shape[:2]) else ()
            kept += [([round(value, 2) for value in box], round(one.score, 5), one.text) for one in read]
        bbox, prob, label = (list(column) for column in zip(*kept, strict=True)) if kept else ([], [], [])
        return {"bbox": bbox, "prob": prob, "label": label, "count_result": {"total": len(bbox)}}

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        texts = [str(text) for text in outputs.get("label") or ()]
        boxes = to_drawn_boxes(outputs["bbox"], outputs.get("prob") or (), range(len(texts)))
        return draw_boxes(picture, boxes, texts, outputs.get(TRACK_IDS, ()))


def _cut(image: Image.Image, box: Sequence[float], mask: Any) -> Picture:
    """Returns a line, cut out of the picture and turned upright.

    Args:
        box: x1, y1, x2, y2.
        mask: polygons x, y, x, y, …; one of four corners, the upper left first, is the line's place.
    """
    try:
        polygons = polygons_of(mask)
    except (TypeError, ValueError) as error:
        raise BadRequest("The field masks is to be [[[x, y, x, y, …], …], …], of numbers.") from error
    x1, y1, x2, y2 = box
    corners = np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)])
    if len(polygons) == 1 and len(polygons[0]) == 4:
        corners = np.array(polygons[0])
    width, height = (round(float(np.hypot(*(corners[end] - corners[0])))) for end in (1, 3))
    if not width or not height:
        return np.empty((0, 0, 3), np.uint8)
    upper_left, upper_right, lower_right, lower_left = (tuple(corner) for corner in corners.tolist())
    quad = (*upper_left, *lower_left, *lower_right, *upper_right)
    line = image.transform((width, height), Image.Transform.QUAD, quad, Image.Resampling.BILINEAR)
    return np.asarray(line.rotate(90, expand=True) if height > UPRIGHT * width else line)
