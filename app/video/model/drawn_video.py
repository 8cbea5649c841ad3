"""What a user may demand of the video of a job's drawn picture: its recording, a ring of segments on the node, and its
broadcast, an RTSP stream on the node's media server. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.inference.broadcast import MAX_FPS, MAX_PATH, MAX_WIDTH, MIN_FPS, MIN_WIDTH, PATH, Broadcast, BroadcastState
from app.kit.text.json_form import JsonDocument
from app.video.model.reader import Reader

RECORDING, RECORDING_FIELDS = "dag.recording", ("hours", "megabytes", "fps", "width")
BROADCAST, BROADCAST_FIELDS = "dag.broadcast", ("path", "fps", "width")
MAX_HOURS, MAX_MEGABYTES, MAX_RECORDING_FPS = 24.0 * 31, 1_000_000, 15.0
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
    fields = reader.mapping(data, RECORDING, most=len(RECORDING_FIELDS))
    reader.only_keys(fields, RECORDING, RECORDING_FIELDS)
    if "hours" not in fields:
        raise reader.problem(f"{RECORDING}.hours", "is missing")
    hours = reader.number(fields["hours"], f"{RECORDING}.hours")
    if not 0 < hours <= MAX_HOURS:
        raise reader.problem(f"{RECORDING}.hours", f"is a number of hours up to {MAX_HOURS:g}")
    fps = _read_fps(fields, RECORDING, reader, Recording.fps, most=MAX_RECORDING_FPS)
    megabytes = reader.integer(
        fields.get("megabytes", Recording.megabytes), f"{RECORDING}.megabytes", least=1, most=MAX_MEGABYTES
    )
    return Recording(hours, megabytes, fps, _read_width(fields, RECORDING, reader, Recording.width))


def read_broadcast(data: object, reader: Reader) -> Broadcast | None:
    """Parses {path, fps, width}, each of which may be missing; None: nothing is broadcast.

    Args:
        reader: raises its error, with the place, for another form.
    """
    if data is None:
        return None
    fields = reader.mapping(data, BROADCAST, most=len(BROADCAST_FIELDS))
    reader.only_keys(fields, BROADCAST, BROADCAST_FIELDS)
    path = reader.text(fields["path"], f"{BROADCAST}.path", most=MAX_PATH) if fields.get("path") else ""
    if path and PATH.fullmatch(path) is None:
        raise reader.problem(
            f"{BROADCAST}.path",
            "is no path of a stream",
            "Write letters, digits, '.', '_', '-', with '/' between parts.",
        )
    fps = _read_fps(fields, BROADCAST, reader, Broadcast.fps, most=MAX_FPS)
    return Broadcast(path, fps, _read_width(fields, BROADCAST, reader, Broadcast.width))


def read_state(data: object, reader: Reader) -> BroadcastState:
    """Parses the state that a runner reports. Raises the reader's error, with the place."""
    fields = reader.mapping(data, "broadcast", most=len(BroadcastState.__annotations__))
    url, problem = fields.get("url"), fields.get("problem")
    return BroadcastState(
        url=reader.text(url, "broadcast.url", most=500) if url else "",
        is_sending=bool(fields.get("is_sending")),
        frames=reader.integer(fields.get("frames"), "broadcast.frames", least=0, most=1 << 53),
        connections=reader.integer(fields.get("connections"), "broadcast.connections", least=0, most=1 << 53),
        core_share=reader.number(fields.get("core_share"), "broadcast.core_share"),
        problem=reader.text(problem, "broadcast.problem") if problem else "",
    )


def _read_fps(fields: Mapping[str, Any], place: str, reader: Reader, default: float, *, most: float) -> float:
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


def _read_width(fields: Mapping[str, Any], place: str, reader: Reader, default: int) -> int:
    """Returns the greatest width in pixels.

    Args:
        fields: where `width` may be given.
        place: of the fields in the document.
        reader: raises its error, with the place, for another value.
        default: pixels, if none are given.
    """
    return reader.integer(fields.get("width", default), f"{place}.width", least=MIN_WIDTH, most=MAX_WIDTH)
