"""What joint inference is measured on: pairs of a small and a big model, pictures with their truth, and what is right.

The files lie in the folder shared/data beside the repository, which is never part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Picture, Prediction
from app.inference.predictor_options import PredictorOptions
from app.inference.sources import open_source
from tests.harness.paths import SHARED_DATA

IsRight = Callable[[Prediction, Any], bool]


@dataclass(frozen=True)
class Side:
    """One of the two models. parameters: of its worker, as a resource has them."""

    model: Path
    options: PredictorOptions
    parameters: Mapping[str, str]

    @property
    def card(self) -> ModelCard:
        return ModelCard(self.model.stem, Format.ONNX, "0" * 64, self.model.stat().st_size)


@dataclass(frozen=True)
class Case:
    """aim_upload: at most this share may go up; at least aim_quality must be right, or, where that is None, edge + .8 ×
    (cloud - edge)."""

    name: str
    small: Side
    big: Side
    algorithm: str
    parameters: Mapping[str, str]
    pictures: Sequence[Picture]
    truth: Sequence[Any]
    is_right: IsRight
    aim_upload: float
    aim_quality: float | None = None

    def quality(self, answers: Sequence[Prediction]) -> float:
        return sum(map(self.is_right, answers, self.truth)) / len(answers)

    def aim(self, edge: float, cloud: float) -> float:
        return edge + 0.8 * (cloud - edge) if self.aim_quality is None else self.aim_quality


def digits(shared: Path = SHARED_DATA) -> Case:
    """899 held-out digits. Right: the class."""
    with np.load(shared / "images" / "digits_test.npz") as held_out:
        pictures = np.round(held_out["x"][:, 0] * 255).astype(np.uint8)
        truth = held_out["y"].astype(int).tolist()
    small, big = (Side(shared / "models" / f"digits_{size}.onnx", PredictorOptions(), {}) for size in ("small", "big"))
    parameters = {"threshold_cross_entropy": "0.45"}
    return Case(
        "digits",
        small,
        big,
        "CrossEntropy",
        parameters,
        list(pictures),
        truth,
        lambda prediction, label: prediction.label == label,
        aim_upload=0.5,
    )


def mixed(shared: Path = SHARED_DATA) -> Case:
    """A stream that turns from four faces to one and back. Right: the number of faces."""
    four, one = (_frames(shared / "video" / f"{name}-270p.mp4") for name in ("classroom", "headpose-female"))
    turns = [
        (number / len(clip), count, picture)
        for count, clip in ((4, four), (1, one))
        for number, picture in enumerate(clip)
    ]
    turns.sort(key=lambda turn: turn[:2])
    thresholds = {"threshold_img": "0.9", "threshold_box": "0.9"}
    return Case(
        "mixed",
        _face(shared, "face_slim_320", 0.6),
        _face(shared, "face_rfb_640", 0.7),
        "IBT",
        thresholds,
        [picture for _, _, picture in turns],
        [count for _, count, _ in turns],
        lambda prediction, boxes: len(prediction.boxes) == boxes,
        aim_upload=0.55,
        aim_quality=0.95,
    )


def _face(shared: Path, name: str, threshold: float) -> Side:
    options = PredictorOptions(score_threshold=threshold)
    return Side(shared / "models" / f"{name}.onnx", options, {"score_threshold": str(threshold)})


def _frames(video: Path) -> list[Picture]:
    source = open_source(str(video))
    try:
        return [frame.picture for frame in source]
    finally:
        source.close()


CASES: Mapping[str, Callable[[], Case]] = {"digits": digits, "mixed": mixed}
