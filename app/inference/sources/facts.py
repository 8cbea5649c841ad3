"""What can be said of a source before anybody looks at it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.sources.containers import is_cut
from app.inference.sources.factory import open_reel
from app.inference.sources.video import Video

TRIED = 100
"""Frames of which one must be whole."""


@dataclass(frozen=True)
class SourceFacts:
    """problem: a sentence without its end: why it cannot be looked at, or not to its end; empty: nothing speaks against
    it. width, height: of a video file, upright; fps: frames a second; 0: not known."""

    problem: str = ""
    width: int = 0
    height: int = 0
    fps: float = 0.0


def facts_of(source: str) -> SourceFacts:
    """Of a video file its first frame is read. Of a URL nothing is asked but whether this machine could read it."""
    try:
        reel, _, live = open_reel(source)
        if live or not isinstance(reel, Video):
            return SourceFacts()
        return _facts_of_file(reel, Path(source))
    except SourceUnusable as error:
        return SourceFacts(error.message)


def _facts_of_file(reel: Video, path: Path) -> SourceFacts:
    """Raises SourceUnusable."""
    reason = "it has none"
    with closing(reel.shots()) as shots:
        for shot in islice(shots, TRIED):
            try:
                if shot.read is not None:
                    height, width = shot.read().shape[:2]
                    return SourceFacts(_cut(reel, path), width, height, reel.fps)
            except DamagedPicture as error:
                reason = error.message
            else:
                reason = shot.reason
    raise SourceUnusable(f"{path.name}: not one frame can be read: {reason}")


def _cut(reel: Video, path: Path) -> str:
    if not is_cut(path):
        return ""
    there = reel.there()
    return f"{path.name} is cut off: {there or 'its end is missing'}"
