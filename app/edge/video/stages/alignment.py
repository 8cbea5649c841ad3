"""Which way faces look: head pose by FSA-Net, one model or the mean of two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from app.edge.video.stages.base import TRACK_IDS, ModelFile, boxes_of, picture_of, scores_of
from app.edge.video.stages.detection import to_drawn_boxes
from app.edge.video.stages.parameters import TIMEOUT, number
from app.inference.annotations import draw as draw_boxes
from app.inference.decoders.class_names import FACE
from app.inference.errors import ModelUnusable
from app.inference.prediction import Picture
from app.inference.predictor_options import ExecutionProvider
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Layout, Preprocessor
from app.inference.runtimes import Runtime, open_runtime
from app.video.errors import BadStage
from app.video.model.kinds import Metric, StageKind, Type

SIDE = 64
PREPARED = Preprocess(color="BGR", scale=1, mean=(127.5,), std=(128.0,))
WIDENED = 0.4
"""Share of its size by which a face's box is enlarged, half of it on each side."""
UP_ABOVE = -10.0
"""Pitch in degrees above which a face looks up."""
AXES = ("#e6194b", "#3cb44b", "#0082c8")
"""Colors of the axes: to the right, down, and where the nose points."""


class FaceAlignment:
    """Yaw, pitch and roll of each face in degrees; `up` counts pitches above the parameter up_above, -10 by default."""

    kind: ClassVar[StageKind] = StageKind(
        "face_alignment",
        {"image": Type.IMAGE, "bbox": Type.BOXES, "prob": Type.SCORES},
        {"head_pose": Type.POSES, "count_result": Type.COUNTS, "image": Type.IMAGE},
        optional=frozenset({"prob"}),
        metric=Metric.MAE,
        compared="head_pose",
        models=1,
        more_models=1,
        draws=True,
        parameters=frozenset({"up_above", TIMEOUT}),
    )

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        if not self.kind.takes(len(models)):
            raise BadStage("face_alignment takes one model of head poses, or two whose mean counts.")
        self.up_above = number(parameters, "up_above", UP_ABOVE, -180, 180)
        self._runtimes = [_open(file) for file in models]

    @property
    def runtime(self) -> str:
        return " + ".join(dict.fromkeys(runtime.description for runtime in self._runtimes))

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        picture, boxes = picture_of(inputs), boxes_of(inputs)
        scores_of(inputs, len(boxes))
        image = Image.fromarray(picture).convert("RGB")
        poses = [[round(float(angle), 2) for angle in self._estimate_pose(_cut_face(image, box))] for box in boxes]
        return {
            "head_pose": poses,
            "count_result": {"up": sum(pitch > self.up_above for _, pitch, _ in poses), "total": len(poses)},
        }

    def _estimate_pose(self, face: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        answers = [_read_angles(runtime.run(face)) for runtime in self._runtimes]
        return np.asarray(np.mean(answers, axis=0), dtype=np.float32)

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        bbox = inputs.get("bbox") or []
        boxes = to_drawn_boxes(bbox, inputs.get("prob") or ())
        image = Image.fromarray(draw_boxes(picture, boxes, FACE, outputs.get(TRACK_IDS, ())))
        pen = ImageDraw.Draw(image)
        for corners, pose in zip(bbox, outputs.get("head_pose") or [], strict=False):
            _draw_axes(pen, corners, pose)
        return np.asarray(image)


def _open(file: ModelFile) -> Runtime:
    """Opens the model.

    Raises:
        ModelUnusable: It does not answer three angles for a face of 64 × 64.
    """
    runtime = open_runtime(file.card, file.path, file.twin, 1, ExecutionProvider.CPU)
    shape = runtime.input.shape
    if tuple(shape[1:]) != (3, SIDE, SIDE) or shape[0] not in (1, None):
        runtime.close()
        raise ModelUnusable(
            f"{file.card.name} is no model of head poses: its input is {runtime.input.description}",
            hint=f"One of the FSA-Net family takes 1 x 3 x {SIDE} x {SIDE}.",
        )
    try:
        _read_angles(runtime.run(np.zeros((1, 3, SIDE, SIDE), np.float32)))
    except ModelUnusable:
        runtime.close()
        raise
    return runtime


def _read_angles(outputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
    first = next(iter(outputs.values()))
    if first.size != 3:
        raise ModelUnusable(f"a model of head poses answers three angles, not {first.size} numbers")
    return np.asarray(first, dtype=np.float32).reshape(3)


_PREPROCESSOR = Preprocessor(Layout((1, 3, SIDE, SIDE), "NCHW"), "float32", PREPARED)


def _cut_face(image: Image.Image, box: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Returns the enlarged box, cut to the picture, as 1×3×64×64, blue first."""
    x1, y1, x2, y2 = box
    wide, high = (x2 - x1) * WIDENED / 2, (y2 - y1) * WIDENED / 2
    left, top = min(max(0, x1 - wide), image.width - 1), min(max(0, y1 - high), image.height - 1)
    right, bottom = max(min(x2 + wide, image.width), left + 1), max(min(y2 + high, image.height), top + 1)
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, right, bottom))
    return _PREPROCESSOR.values(small)


def _draw_axes(pen: ImageDraw.ImageDraw, corners: Sequence[float], pose: Sequence[float]) -> None:
    """Draws from the middle of the face, half as long as it is wide."""
    x1, y1, x2, y2 = corners[:4]
    middle, length = ((x1 + x2) / 2, (y1 + y2) / 2), abs(x2 - x1) / 2
    yaw, pitch, roll = (math.radians(angle) for angle in (-pose[0], pose[1], pose[2]))
    ends = (
        (
            math.cos(yaw) * math.cos(roll),
            math.cos(pitch) * math.sin(roll) + math.cos(roll) * math.sin(pitch) * math.sin(yaw),
        ),
        (
            -math.cos(yaw) * math.sin(roll),
            math.cos(pitch) * math.cos(roll) - math.sin(pitch) * math.sin(yaw) * math.sin(roll),
        ),
        (math.sin(yaw), -math.cos(yaw) * math.sin(pitch)),
    )
    for (x, y), colour in zip(ends, AXES, strict=True):
        pen.line((*middle, middle[0] + length * x, middle[1] + length * y), fill=colour, width=2)
