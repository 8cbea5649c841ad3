"""The cameras that an administrator adds to a node while its agent runs. Pure; shared by web server and agent.

A node opens one of them only if its own administrator offers it: the agent's --source is the allow list. The videos
that the agent was started with (--video) are not among these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from app.kit.errors import BadInput, Conflict, NotFound
from app.kit.text.json_values import JsonObject
from app.nodes.model import WorkKey

CAMERAS = "nodecameras"
"""The kind of the order that contains all cameras of a node."""
KEY = WorkKey(CAMERAS, "added", "all")
FIRST_ID = 1000
"""Smaller ids are positions among the agent's --video options."""
MOST = 500
MOST_TYPE, MOST_SOURCE = 64, 2000
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


class BadCamera(BadInput, code="BAD_CAMERA"): ...


class CameraNotFound(NotFound, code="CAMERA_NOT_FOUND"):
    """No camera with this id was added to the node; those of its agent's --video are changed at the agent."""


class CameraInUse(Conflict, code="CAMERA_IN_USE"):
    """A video job reads the camera."""


@dataclass(frozen=True)
class Camera:
    """A camera, or another video, of a node."""

    id: str
    """A number that no other video of the node has or had."""
    type: str
    """Its subject, for people: `traffic flow`."""
    source: str
    """An absolute path on the node, or a URL, perhaps with a password."""


@dataclass(frozen=True)
class CameraList:
    """All cameras that were added to a node, by id."""

    cameras: tuple[Camera, ...] = ()
    next_id: int = FIRST_ID

    def get(self, camera_id: str) -> Camera:
        for camera in self.cameras:
            if camera.id == camera_id:
                return camera
        raise CameraNotFound(
            f"No camera {camera_id[:64]!r} was added to this node.",
            hint="Those that its agent was started with are changed there, by --video.",
        )

    def with_new(self, type: str, source: str) -> tuple[CameraList, Camera]:
        """Returns the list with a new camera, and the camera.

        Raises:
            BadCamera: The type or the source is invalid, or there are MOST already.
        """
        if len(self.cameras) >= MOST:
            raise BadCamera(f"A node has at most {MOST} added cameras.")
        camera = Camera(str(self.next_id), _check_type(type), _check_source(source))
        return CameraList((*self.cameras, camera), self.next_id + 1), camera

    def changed(self, camera_id: str, *, type: str | None, source: str | None) -> tuple[CameraList, Camera]:
        """Returns the list with a changed camera, and the camera.

        Args:
            camera_id: the camera to change.
            type: the new type; None: unchanged.
            source: the new source; None: unchanged.

        Raises:
            CameraNotFound: The list has no such camera.
            BadCamera: The type or the source is invalid.
        """
        former = self.get(camera_id)
        camera = replace(
            former,
            type=former.type if type is None else _check_type(type),
            source=former.source if source is None else _check_source(source),
        )
        changed = tuple(camera if one.id == camera_id else one for one in self.cameras)
        return replace(self, cameras=changed), camera

    def without(self, camera_id: str) -> CameraList:
        gone = self.get(camera_id)
        return replace(self, cameras=tuple(camera for camera in self.cameras if camera is not gone))

    def to_json(self) -> JsonObject:
        """Returns the content of the order."""
        cameras = {camera.id: {"type": camera.type, "source": camera.source} for camera in self.cameras}
        return {"cameras": cameras, "next_id": self.next_id}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CameraList:
        """Reads the content of the order; that of a deletion is empty."""
        cameras = (
            Camera(str(camera_id), str(one["type"]), str(one["source"]))
            for camera_id, one in data.get("cameras", {}).items()
        )
        return CameraList(tuple(sorted(cameras, key=lambda camera: int(camera.id))), int(data.get("next_id", FIRST_ID)))


def _check_type(text: str) -> str:
    kind = text.strip()
    if not kind or len(kind) > MOST_TYPE or not kind.isprintable():
        raise BadCamera(
            f"{text[:40]!r} is no name for a camera.", hint=f"It is a text of at most {MOST_TYPE} characters."
        )
    return kind


def _check_source(text: str) -> str:
    source = text.strip()
    is_path = source.startswith("/") and source.isprintable()
    if len(source) > MOST_SOURCE or not (is_path or _URL.fullmatch(source)):
        raise BadCamera(
            "This is no address of a camera.",
            hint="Give a URL, as rtsp://user:password@10.0.0.7/stream, or an absolute path on the node.",
        )
    return source


def video_of(text: str) -> tuple[str, str]:
    """Reads (type, absolute path or URL) from `TYPE=SOURCE` or `SOURCE`. The type defaults to the stem of the source's
    name.

    Raises:
        BadInput: The source is not valid.
    """
    kind, equals, source = text.partition("=")
    if not equals or "/" in kind:  # an equals sign in a URL or a folder
        kind, source = "", text
    if not source.strip():
        raise BadInput(f"{text!r} names no video", hint="It should look like 'traffic flow=/videos/input.mov'.")
    is_url = "://" in source
    named = PurePosixPath(urlsplit(source).path) if is_url else Path(source)
    kind = kind.strip() or named.stem or source.partition("://")[0]
    if len(kind) > MOST_TYPE or not kind.isprintable():
        raise BadInput(f"{kind[:40]!r} is no type of a video", hint=f"It is a text of at most {MOST_TYPE} characters.")
    return kind, source if is_url else str(Path(source).expanduser().absolute())
