"""What of a job's drawn picture is kept on its node, as a video: a ring of segments. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from app.video.model.reader import Reader

PLACE = "dag.recording"
KEYS = ("hours", "megabytes", "fps", "width")
MAX_HOURS, MAX_MEGABYTES, MAX_FPS = 24.0 * 31, 1_000_000, 15.0
MIN_WIDTH, MAX_WIDTH = 160, 1920
MAX_CLIP_S = 600.0
"""Seconds that a clip may last."""


@dataclass(frozen=True)
class Recording:
    """What a user demands of the recording of a job."""

    hours: float
    """What is older is deleted."""
    megabytes: int = 2000
    """Above this size the oldest is deleted; 10^6 bytes."""
    fps: float = 5.0
    """The most frames per second."""
    width: int = 640
    """The greatest width; smaller pictures are not enlarged."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
    fps = reader.number(fields.get("fps", Recording.fps), f"{PLACE}.fps")
    if not 0 < hours <= MAX_HOURS:
        raise reader.problem(f"{PLACE}.hours", f"is a number of hours up to {MAX_HOURS:g}")
    if not 0.1 <= fps <= MAX_FPS:
        raise reader.problem(f"{PLACE}.fps", f"is a number of frames per second from 0.1 to {MAX_FPS:g}")
    megabytes, width = fields.get("megabytes", Recording.megabytes), fields.get("width", Recording.width)
    return Recording(
        hours,
        reader.integer(megabytes, f"{PLACE}.megabytes", least=1, most=MAX_MEGABYTES),
        fps,
        reader.integer(width, f"{PLACE}.width", least=MIN_WIDTH, most=MAX_WIDTH),
    )
