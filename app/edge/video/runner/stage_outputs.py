"""The outputs of a stage as its host has answered them: checked, and with pictures decoded."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import Any

from app.edge.video.runner.frame_context import FrameFailed
from app.edge.video.runner.frame_transport import OutgoingPictures
from app.inference.errors import DamagedPicture
from app.inference.picture_codec import decode
from app.video.model.kinds import StageKind, Type

ENCODED = frozenset({Type.IMAGE, Type.CLIP})
"""Types whose values are sent as encoded pictures."""


def read_outputs(stage: str, kind: StageKind, names: Collection[str], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the requested outputs of a stage; an empty list for one that its model does not have.

    Args:
        kind: of the stage.
        names: of the requested outputs.
        outputs: as its host has answered.

    Raises:
        FrameFailed: An output is missing, or damaged.
    """
    outputs = {**{name: [] for name in kind.model_dependent}, **outputs}
    missing = [name for name in names if name not in outputs]
    if missing:
        raise FrameFailed(stage, f"its answer has no {', '.join(sorted(missing))}")
    values = {}
    for name in names:
        value, type_ = outputs[name], kind.outputs.get(name)
        if type_ in ENCODED:
            value = _picture(stage, name, value)
        elif type_ is Type.BOXES and not _are_rows(value, 4):
            raise FrameFailed(stage, f"{name} of its answer are no boxes")
        elif type_ is Type.KEYPOINTS and not (isinstance(value, list) and all(_are_rows(each, 3) for each in value)):
            raise FrameFailed(stage, f"{name} of its answer are no key points")
        elif type_ is Type.MASKS and not (isinstance(value, list) and all(_are_polygons(each) for each in value)):
            raise FrameFailed(stage, f"{name} of its answer are no masks")
        values[name] = value
    return values


def _picture(stage: str, name: str, value: Any) -> OutgoingPictures:
    try:
        texts = value if isinstance(value, list) else [value]
        return OutgoingPictures(f"{stage}.{name}", *(decode(base64.b64decode(text, validate=True)) for text in texts))
    except (DamagedPicture, binascii.Error, ValueError, TypeError) as error:
        raise FrameFailed(stage, f"{name} of its answer is no picture: {error}") from error


def _are_polygons(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) >= 6 and len(row) % 2 == 0 and _are_rows([row], len(row)) for row in value
    )


def _are_rows(value: Any, width: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == width and all(isinstance(number, int | float) for number in row)
        for row in value
    )
