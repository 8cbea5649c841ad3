"""What of a job's drawn picture is kept on its node, as a video: a ring of segments. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.kit.text.json_form import JsonDocument
from app.video.model.drawn_video import read_fps, read_width
from app.video.model.reader import Reader

PLACE = "dag.recording"
KEYS = ("hours", "megabytes", "fps", "width")
MAX_HOURS, MAX_MEGABYTES, MAX_FPS = 24.0 * 31, 1_000_000, 15.0
MAX_CLIP_S = 600.0
"""Seconds that a clip may last."""


@dataclass(frozen=True)
class Recording(JsonDocument):
    """What a user demands of the recording of a job."""

    hours: float
    """What is older is deleted."""
    megabytes: int = 2000
    """Above this size the oldest is deleted; 10^6 bytes."""
    fps: float = 5.0
    """The most frames per second."""
    width: int = 640
    """The greatest width; smaller pictures are not enlarged."""


def read_recording(data: object, reader: Reader) -> Recording | None:
    """Parses {hours, megabytes, fps, width}, of which all but hours may be missing; None: nothing is recorded.

    Args:
        reader: raises its error, with the place, for another form.
    """
    if data is None:
        return None
    fields = reader.mapping(data, PLACE, most=len(KEYS))
    reader.only_keys(fields, PLACE, KEYS)
    if "hours" not in fields:
        raise reader.problem(f"{PLACE}.hours", "is missing")
    hours = reader.number(fields["hours"], f"{PLACE}.hours")
    if not 0 < hours <= MAX_HOURS:
        raise reader.problem(f"{PLACE}.hours", f"is a number of hours up to {MAX_HOURS:g}")
    fps = read_fps(fields, PLACE, reader, Recording.fps, most=MAX_FPS)
    megabytes = reader.integer(
        fields.get("megabytes", Recording.megabytes), f"{PLACE}.megabytes", least=1, most=MAX_MEGABYTES
    )
    return Recording(hours, megabytes, fps, read_width(fields, PLACE, reader, Recording.width))
