"""The videos and cameras of this node: those that its agent was started with, and those that the web added since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.inference.sources.allow_list import resolved
from app.nodes.cameras import Camera, CameraList

SOURCE_NOT_OFFERED = "SourceNotOffered"
"""Why a node does not run what reads a source that it does not offer."""


class Cameras:
    """What may be looked at on this node.

    Attributes:
        sources: folders, files and URL patterns that the node's administrator offers, see inference.sources.allow_list.
    """

    def __init__(self, given: Sequence[tuple[str, str]] = (), sources: Sequence[str] = ()) -> None:
        """
        Args:
            given: (type, path or URL) of --video; the id of each is its place.
            sources: of --source.
        """
        self.sources = tuple(sources)
        self._given = {str(number): Camera(str(number), kind, source) for number, (kind, source) in enumerate(given)}
        self._added: dict[str, Camera] = {}

    def by_id(self) -> Mapping[str, Camera]:
        return {**self._given, **self._added}

    def replace_added(self, content: Mapping[str, Any]) -> None:
        """content: of the web's order, see CameraList.to_json; without any: there are none."""
        self._added = {camera.id: camera for camera in CameraList.from_json(content).cameras}

    def source_of(self, camera: Camera) -> str:
        """What may be opened. Of an added one: only what --source offers. Raises SourceNotOffered."""
        return camera.source if camera.id in self._given else resolved(camera.source, self.sources)
