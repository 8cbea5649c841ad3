"""Facts about a source before it is used."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.sources.containers import is_cut
from app.inference.sources.factory import open_video_source
from app.inference.sources.video import Video

TRIED = 100
"""Number of frames of which at least one has to be intact."""


@dataclass(frozen=True)
class SourceFacts:
    """Facts of a source; zeros are unknown."""

    problem: str = ""
    """Why it cannot be read completely: a sentence without its full stop; empty if no problem is known."""
    width: int = 0
    """Of a video file, rotated upright, in pixels."""
    height: int = 0
    fps: float = 0.0
    """Frames a second."""
    is_live: bool = False
    """Its frames come by themselves, and end only when it fails."""
    is_refused: bool = False
    """This node opens it for nobody."""


def facts_of(source: str) -> SourceFacts:
    """Returns the facts. The first frame of a video file is read; a URL is not opened, but this machine has to be able
    to read it."""
    try:
        video, _, live = open_video_source(source)
        if live or not isinstance(video, Video):
            return SourceFacts(is_live=live)
        return _facts_of_file(video, Path(source))
    except SourceUnusable as error:
        return SourceFacts(error.message)


def _facts_of_file(video: Video, path: Path) -> SourceFacts:
    """Reads a video file.

    Raises:
        SourceUnusable: It cannot be read.
    """
    reason = "it has none"
    with closing(video.frames()) as frames:
        for lazy_frame in islice(frames, TRIED):
            try:
                if lazy_frame.read is not None:
                    height, width = lazy_frame.read().shape[:2]
                    return SourceFacts(_cut(video, path), width, height, video.fps)
            except DamagedPicture as error:
                reason = error.message
            else:
                reason = lazy_frame.reason
    raise SourceUnusable(f"{path.name}: not one frame can be read: {reason}")


def _cut(video: Video, path: Path) -> str:
    if not is_cut(path):
        return ""
    there = video.there()
    return f"{path.name} is cut off: {there or 'its end is missing'}"
