"""The kinds of stages, by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from app.edge.video.stages.alignment import FaceAlignment
from app.edge.video.stages.base import ENTRY_POINTS, Stage
from app.edge.video.stages.classification import Classification
from app.edge.video.stages.detection import Detection, FaceDetection
from app.edge.video.stages.motion import Motion
from app.edge.video.stages.text import TextRecognition
from app.video.errors import BadStage
from app.video.model.kinds import StageKind

BUNDLED: tuple[type[Stage], ...] = (FaceDetection, FaceAlignment, Detection, Classification, TextRecognition, Motion)
logger = logging.getLogger(__name__)


def kinds() -> dict[str, StageKind]:
    """Returns the product's kinds and those of entry points; one that cannot be loaded is omitted and logged."""
    return {name: stage_class.kind for name, stage_class in _load_classes().items()}


def stage_class(kind: str) -> type[Stage]:
    """Returns the class of a kind.

    Raises:
        BadStage: There is none; the message names the others.
    """
    try:
        return _load_classes()[kind]
    except KeyError:
        raise BadStage(
            f"There is no kind of stage {kind!r}.", hint=f"There are {', '.join(_load_classes())}."
        ) from None


@cache
def _load_classes() -> Mapping[str, type[Stage]]:
    """Entry points are read once per process."""
    classes: dict[str, type[Stage]] = {each.kind.name: each for each in BUNDLED}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        problem = _find_problem(point, loaded := _load(point), classes)
        if problem:
            logger.warning("The kind of stage %s of %s is left out: %s", point.name, point.value, problem)
        else:
            classes[point.name] = loaded
    return MappingProxyType(classes)


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # noqa: BLE001  # it is somebody else's code
        return f"{type(error).__name__}: {error}"[:300]


def _find_problem(point: EntryPoint, loaded: Any, classes: Mapping[str, type[Stage]]) -> str:
    """Returns why it cannot be used; empty if it can."""
    if isinstance(loaded, str):
        return loaded
    if point.name in classes:
        return "the name is taken"
    kind = getattr(loaded, "kind", None)
    if not isinstance(kind, StageKind) or not all(
        callable(getattr(loaded, name, None)) for name in ("run", "__call__")
    ):
        return "it is no class with a StageKind in `kind` and a method run"
    return "" if kind.name == point.name else f"its kind is named {kind.name!r}"
