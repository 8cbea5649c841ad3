"""The videos and cameras of this node: those given at the agent's start, and those added in the web since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.inference.sources.allow_list import resolve_source
from app.nodes.cameras import Camera, CameraList

SOURCE_NOT_OFFERED = "SourceNotOffered"
"""Reason why a node refuses work that reads a source which it does not offer."""


class Cameras:
    """What may be looked at on this node.

    Attributes:
        sources: folders, files and URL patterns that the node's administrator offers, see inference.sources.allow_list.
    """

    def __init__(self, given: Sequence[tuple[str, str]] = (), sources: Sequence[str] = ()) -> None:
        """Creates the list.

        Args:
            given: (type, path or URL) of each --video; its id is its position.
            sources: of --source.
        """
        self.sources = tuple(sources)
        self._given = {str(number): Camera(str(number), kind, source) for number, (kind, source) in enumerate(given)}
        self._added: dict[str, Camera] = {}

    def by_id(self) -> Mapping[str, Camera]:
        return {**self._given, **self._added}

    def replace_added(self, content: Mapping[str, Any]) -> None:
        """Replaces the cameras added in the web.

        Args:
            content: of the order, see CameraList.to_json; empty for none.
        """
        self._added = {camera.id: camera for camera in CameraList.from_json(content).cameras}

    def source_of(self, camera: Camera) -> str:
        """Returns the path or URL to open; for an added camera, only what --source offers.

        Raises:
            SourceNotOffered: It is not offered.
        """
        return camera.source if camera.id in self._given else resolve_source(camera.source, self.sources)
