"""The interface of a kind of stage, and checks of its inputs.

A custom one is an entry point of the group `modelmill.video_stages`, `name = "module:Class"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from app.inference.model_card import ModelCard
from app.inference.prediction import Picture
from app.kit.errors import BadRequest
from app.video.model.kinds import StageKind

ENTRY_POINTS = "modelmill.video_stages"
SEVERAL = "run_several"
"""Optional method of a stage: `run` for the frames of several calls at once. It gets a sequence of inputs, and returns
for each its outputs, or the ModelmillError that `run` would raise. Used with the parameter `batch`."""
TRACK_IDS = "track_ids"
"""What `draw` is given beside the outputs of the kind: for each box the id of its object, or None."""


@dataclass(frozen=True)
class ModelFile:
    """A model of a stage, on this node."""

    card: ModelCard
    path: Path
    twin: Path | None = None
    """The ONNX file from which a BIE or NEF was made."""


class Stage(Protocol):
    """Opened once for each process and variant; then called with one frame after the other, by one thread."""

    kind: ClassVar[StageKind]

    def __init__(self, models: Sequence[ModelFile], parameters: Mapping[str, str]) -> None:
        """Opens the stage.

        Raises:
            ModelUnusable, BadStage: It cannot be opened.
        """

    @property
    def runtime(self) -> str:
        """What really runs it, for readers."""

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute the stage on one frame.

        Args:
            inputs: by the kind's names; pictures are arrays (H×W×3, RGB, uint8), a clip is a list of them, all else is
                JSON.

        Returns:
            All outputs of the kind, except `image` if the kind draws.

        Raises:
            BadRequest: An input is not valid.
            InferenceFailed: The model could not be run on it.
        """

    @staticmethod
    def draw(picture: Picture, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Picture:
        """Draw the outputs, for a kind that draws.

        Args:
            picture: H×W×3, RGB, uint8.
            inputs: in the picture's pixels.
            outputs: in the picture's pixels; with TRACK_IDS if boxes among inputs and outputs are those of the rows.

        Returns:
            A copy of the picture.
        """


MAX_BOXES = 4096


def picture_of(inputs: Mapping[str, Any], name: str = "image") -> Picture:
    """Returns the picture of a field.

    Raises:
        BadRequest: The field is missing, or is no picture.
    """
    picture = inputs.get(name)
    if not isinstance(picture, np.ndarray):
        raise BadRequest(f"The field {name} is missing: a picture.")
    return picture


def clip_of(inputs: Mapping[str, Any], name: str = "clip") -> list[Picture]:
    """Returns the pictures of a field, oldest first.

    Raises:
        BadRequest: The field is missing, empty, or no list of pictures.
    """
    clip = inputs.get(name)
    if not isinstance(clip, list | tuple) or not clip or not all(isinstance(each, np.ndarray) for each in clip):
        raise BadRequest(f"The field {name} is missing: pictures, oldest first.")
    return list(clip)


def boxes_of(inputs: Mapping[str, Any], name: str = "bbox") -> npt.NDArray[np.float64]:
    """Returns boxes as N×4 with x1 ≤ x2 and y1 ≤ y2.

    Raises:
        BadRequest: They are not boxes.
    """
    given = inputs.get(name)
    if not isinstance(given, list) or len(given) > MAX_BOXES:
        raise BadRequest(f"The field {name} is to be a list of up to {MAX_BOXES} boxes.")
    boxes = _require_numbers(given, name, "[[x1, y1, x2, y2], …]").reshape(-1, 4) if given else np.empty((0, 4))
    if len(boxes) != len(given):
        raise BadRequest(f"The field {name} is to be [[x1, y1, x2, y2], …].")
    corners = boxes.reshape(-1, 2, 2)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def scores_of(inputs: Mapping[str, Any], count: int, name: str = "prob") -> list[float]:
    """Returns this many scores; ones if there are none."""
    given = inputs.get(name)
    if given is None:
        return [1.0] * count
    if not isinstance(given, list) or len(given) != count:
        raise BadRequest(f"The field {name} is to be a list of {count} numbers, one for each box.")
    return [float(value) for value in _require_numbers(given, name, "[p, …]").ravel()] if given else []


def _require_numbers(given: list[Any], name: str, form: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(given)
        whole = array.dtype.kind in "iuf" and bool(np.isfinite(array).all())
    except (ValueError, TypeError, OverflowError):
        whole = False
    if not whole or array.size % (4 if array.ndim == 2 else 1) or (array.ndim == 2 and array.shape[1] != 4):
        raise BadRequest(f"The field {name} is to be {form}, of numbers.")
    return array.astype(np.float64)
