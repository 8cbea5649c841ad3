"""The drawn picture of a job as an RTSP stream on its node's media server. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypedDict

from app.kit.text.json_form import JsonDocument
from app.video.model.drawn_video import read_fps, read_width
from app.video.model.reader import Reader

PLACE = "dag.broadcast"
KEYS = ("path", "fps", "width")
MAX_FPS = 30.0
MAX_PATH = 100
PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Broadcast(JsonDocument):
    """What a user demands of the broadcast of a job."""

    path: str = ""
    """Below the media server's address; empty: the uid of the job."""
    fps: float = 10.0
    """The most frames per second."""
    width: int = 640
    """The greatest width; smaller pictures are not enlarged."""


class BroadcastState(TypedDict):
    """What a runner reports on the broadcast of its job."""

    url: str
    """Where viewers find it, without user and password; empty: the node has no media server."""
    is_sending: bool
    frames: int
    """Sent since the runner's start."""
    connections: int
    """Made since the runner's start."""
    core_share: float
    """The share of a core that drawing and encoding take."""
    problem: str
    """The last one, or why nothing is sent now; empty: there was none."""


def read_broadcast(data: object, reader: Reader) -> Broadcast | None:
    """Parses {path, fps, width}, each of which may be missing; None: nothing is broadcast.

    Args:
        reader: raises its error, with the place, for another form.
    """
    if data is None:
        return None
    fields = reader.mapping(data, PLACE, most=len(KEYS))
    reader.only_keys(fields, PLACE, KEYS)
    path = reader.text(fields["path"], f"{PLACE}.path", most=MAX_PATH) if fields.get("path") else ""
    if path and PATH.fullmatch(path) is None:
        raise reader.problem(
            f"{PLACE}.path", "is no path of a stream", "Write letters, digits, '.', '_', '-', with '/' between parts."
        )
    fps = read_fps(fields, PLACE, reader, Broadcast.fps, most=MAX_FPS)
    return Broadcast(path, fps, read_width(fields, PLACE, reader, Broadcast.width))


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
