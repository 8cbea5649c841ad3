"""The sandbox entry point that makes one small picture of a file. Hostile files can hurt only a child."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.conversion.intake.sample_measurement import thumbnail
from app.conversion.toolchains.samples.pictures import DECODER_ERRORS
from app.kit.errors import BadInput

SIDE = 512


def make_picture(request: dict[str, Any], _: Callable[[float, str], None]) -> dict[str, Any]:
    """request: {"picture": path, "into": path of the JPEG}. Raises BadInput for what is no picture."""
    try:
        thumbnail(Path(request["picture"]), Path(request["into"]), SIDE)
    except DECODER_ERRORS as error:
        raise BadInput("This is no picture that can be read here.", hint="Download it to look at it.") from error
    return {}
