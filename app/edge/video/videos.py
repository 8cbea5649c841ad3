"""The videos of a node: what may be told of each, and what speaks against it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from app.edge.agent.cameras import Cameras
from app.inference.sources.allow_list import SourceNotOffered
from app.inference.sources.factory import is_stream, is_there, shown
from app.inference.sources.facts import SourceFacts, facts_of
from app.kit.errors import BadInput
from app.nodes.cameras import Camera

Mark = tuple[int, int, int] | None
logger = logging.getLogger(__name__)


class Videos:
    """What a node's cameras are to video jobs.

    Raises BadInput for a path that the agent was started with and that is not there; what a URL names is not asked.
    """

    def __init__(self, cameras: Cameras) -> None:
        self.cameras = cameras
        self._known: dict[str, tuple[Mark, SourceFacts]] = {}
        for camera in cameras.by_id().values():
            if not is_stream(camera.source) and not is_there(Path(camera.source)):
                raise BadInput(
                    f"there is no video {camera.source}", hint="Give --video a path that this machine has, or a URL."
                )

    def told(self) -> dict[str, Mapping[str, str]]:
        """By id: {type, name}, and size, as 270x480, fps and problem, where there are. A file is looked at when it has
        changed."""
        cameras = self.cameras.by_id()
        present = {camera.source for camera in cameras.values()}
        self._known = {source: known for source, known in self._known.items() if source in present}
        return {camera_id: self._told(camera) for camera_id, camera in cameras.items()}

    def _told(self, camera: Camera) -> dict[str, str]:
        name = shown(camera.source) if is_stream(camera.source) else Path(camera.source).name
        facts = self._facts(camera, name)
        size = f"{facts.width}x{facts.height}" if facts.width else ""
        fps = f"{facts.fps:.5g}" if facts.fps else ""
        told = {"type": camera.type, "name": name, "size": size, "fps": fps, "problem": facts.problem}
        return {key: value for key, value in told.items() if value or key in ("type", "name")}

    def _facts(self, camera: Camera, name: str) -> SourceFacts:
        try:
            source = self.cameras.source_of(camera)
        except SourceNotOffered as error:
            return SourceFacts(f"{error.message} {error.hint}")
        mark, known = _mark(source), self._known.get(camera.source)
        if known is None or known[0] != mark:
            is_gone = mark is None and not is_stream(source)
            facts = SourceFacts(f"{name} is not there{' any more' if known else ''}") if is_gone else facts_of(source)
            known = self._known[camera.source] = mark, facts
            if known[1].problem:
                logger.warning("Video %s: %s.", camera.id, known[1].problem)
        return known[1]


def _mark(source: str) -> Mark:
    """Another one when the file is. Of a stream there is none."""
    try:
        stat = Path(source).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
