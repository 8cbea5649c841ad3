"""The videos of a node: what may be told of each, and what speaks against it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.inference.sources.factory import is_stream, shown
from app.inference.sources.facts import SourceFacts, facts_of
from app.kit.errors import BadInput

Mark = tuple[int, int, int] | None
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Video:
    """A video that this node offers."""

    type: str
    source: str
    """Path or URL, which never leaves this node."""
    name: str
    """What may be shown of it."""


class Videos:
    """given: (type, path or URL); a video's id is its place in the list.

    Raises BadInput for a path that is not there and a URL that is none; what a URL names is not asked.
    """

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self.by_id = {str(number): _video(kind, source) for number, (kind, source) in enumerate(given)}
        self._known: dict[str, tuple[Mark, SourceFacts]] = {}

    def told(self) -> dict[str, Mapping[str, str]]:
        """By id: {type, name}, and size, as 270x480, fps and problem, where there are. A file is looked at when it has
        changed."""
        return {video_id: self._told(video_id, video) for video_id, video in self.by_id.items()}

    def _told(self, video_id: str, video: Video) -> dict[str, str]:
        facts = self._facts(video_id, video)
        size = f"{facts.width}x{facts.height}" if facts.width else ""
        fps = f"{facts.fps:.5g}" if facts.fps else ""
        told = {"type": video.type, "name": video.name, "size": size, "fps": fps, "problem": facts.problem}
        return {key: value for key, value in told.items() if value or key in ("type", "name")}

    def _facts(self, video_id: str, video: Video) -> SourceFacts:
        mark, known = _mark(video.source), self._known.get(video_id)
        if known is None or known[0] != mark:
            is_gone = mark is None and not is_stream(video.source)
            facts = SourceFacts(f"{video.name} is not there any more") if is_gone else facts_of(video.source)
            known = self._known[video_id] = mark, facts
            if known[1].problem:
                logger.warning("Video %s: %s.", video_id, known[1].problem)
        return known[1]


def _video(kind: str, source: str) -> Video:
    if is_stream(source):
        return Video(kind, source, shown(source))
    path = Path(source)
    if not _is_there(path):
        raise BadInput(f"there is no video {source}", hint="Give --video a path that this machine has, or a URL.")
    return Video(kind, source, path.name)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _mark(source: str) -> Mark:
    """Another one when the file is. Of a stream there is none."""
    try:
        stat = Path(source).stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
