"""A stage without a model: does anything move in a clip?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from app.edge.video.stages.base import ModelFile, clip_of
from app.edge.video.stages.parameters import TIMEOUT, number
from app.inference.motion import LEVEL, measure_changed_share, small_grey
from app.inference.prediction import Picture
from app.video.model.kinds import StageKind, Type


class Motion:
    """prob: of each picture but the first, the share of pixels that differ from the one before by more than `level` of
    255 (20 unless given). count_result: `moving` of `total` such pictures, with a share above `area` (0.005)."""

    kind: ClassVar[StageKind] = StageKind(
        "motion",
        {"clip": Type.CLIP},
        {"prob": Type.SCORES, "count_result": Type.COUNTS},
        models=0,
        parameters=frozenset({"level", "area", TIMEOUT}),
    )
    runtime = "numpy"

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        self.level = number(parameters, "level", LEVEL, 0, 255)
        self.area = number(parameters, "area", 0.005, 0, 1)

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        pictures = [small_grey(picture) for picture in clip_of(inputs)]
        shares = [round(measure_changed_share(before, after, self.level), 5) for before, after in pairwise(pictures)]
        return {
            "prob": shares,
            "count_result": {"moving": sum(share > self.area for share in shares), "total": len(shares)},
        }

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        return picture
