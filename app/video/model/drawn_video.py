"""What a user may demand of a video of a job's drawn picture: of its recording, and of its broadcast. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.inference.broadcast import MAX_WIDTH, MIN_FPS, MIN_WIDTH
from app.video.model.reader import Reader


def read_fps(fields: Mapping[str, Any], place: str, reader: Reader, default: float, *, most: float) -> float:
    """Returns the most frames per second.

    Args:
        fields: where `fps` may be given.
        place: of the fields in the document.
        reader: raises its error, with the place, for another value.
        default: frames per second, if none are given.
        most: frames per second that may be demanded.
    """
    fps = reader.number(fields.get("fps", default), f"{place}.fps")
    if not MIN_FPS <= fps <= most:
        raise reader.problem(f"{place}.fps", f"is a number of frames per second from {MIN_FPS:g} to {most:g}")
    return fps


def read_width(fields: Mapping[str, Any], place: str, reader: Reader, default: int) -> int:
    """Returns the greatest width in pixels.

    Args:
        fields: where `width` may be given.
        place: of the fields in the document.
        reader: raises its error, with the place, for another value.
        default: pixels, if none are given.
    """
    return reader.integer(fields.get("width", default), f"{place}.width", least=MIN_WIDTH, most=MAX_WIDTH)
