"""The drawn picture of a stream as an RTSP stream on the media server of its node: what a user demands, and its state.
Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from typing_extensions import TypedDict

from app.kit.text.json_form import JsonDocument

MIN_FPS, MAX_FPS = 0.1, 30.0
MIN_WIDTH, MAX_WIDTH = 160, 1920
MAX_PATH = 100
PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class Broadcast(JsonDocument):
    """What a user demands of a broadcast."""

    path: str = ""
    """Below the media server's address; empty: the uid of the job or service."""
    fps: float = 10.0
    """The most frames per second."""
    width: int = 640
    """The greatest width; smaller pictures are not enlarged."""


class BroadcastState(TypedDict):
    """What a node reports on a broadcast."""

    url: str
    """Where viewers find it, without user and password; empty: the node has no media server."""
    is_sending: bool
    frames: int
    """Sent since the start of the process."""
    connections: int
    """Made since the start of the process."""
    core_share: float
    """The share of a core that drawing and encoding take."""
    problem: str
    """The last one, or why nothing is sent now; empty: there was none."""
