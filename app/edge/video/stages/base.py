"""What a kind of stage is.

One's own is an entry point of the group `modelmill.video_stages`, `name = "module:Class"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from app.inference.prediction import ModelCard, Picture
from app.video.model.kinds import StageKind

ENTRY_POINTS = "modelmill.video_stages"


@dataclass(frozen=True)
class ModelFile:
    """A model of a stage, on this node."""

    card: ModelCard
    path: Path
    twin: Path | None = None
    """The ONNX that a BIE or NEF was made of."""


class Stage(Protocol):
    """Opened once a process and variant; then called with one frame after the other, by one thread."""

    kind: ClassVar[StageKind]

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        """Raises ModelUnusable, BadStage."""

    @property
    def runtime(self) -> str:
        """What really runs, for a reader."""

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute the stage on one frame.

        Args:
            inputs: by the kind's names; pictures are arrays (H×W×3, RGB, uint8), a clip is a list of them, all else is
                JSON.

        Returns:
            All of the kind's outputs but `image` of a kind that draws.

        Raises:
            BadRequest: this is no input.
            InferenceFailed: the model could not be run on it.
        """

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        """Draw what was found, for a kind that draws.

        Args:
            picture: H×W×3, RGB, uint8.
            inputs: in the picture's pixels.
            outputs: in the picture's pixels.

        Returns:
            A copy of the picture.
        """
