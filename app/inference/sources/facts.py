"""Facts about a source before it is used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.sources.containers import is_cut
from app.inference.sources.factory import open_video_source
from app.inference.sources.frames import LazyFrame
from app.inference.sources.video import Video

TRIED = 100
"""Number of frames of which at least one has to be intact."""
RATE_S = 2.0
"""Seconds over which the rate of a live source that names none is measured."""


@dataclass(frozen=True)
class SourceFacts:
    """Facts of a source; zeros are unknown."""

    problem: str = ""
    """Why it cannot be read completely: a sentence without its full stop; empty if no problem is known."""
    width: int = 0
    """Of a video, rotated upright, in pixels."""
    height: int = 0
    fps: float = 0.0
    """Frames a second."""
    is_live: bool = False
    """Its frames come by themselves, and end only when it fails."""
    is_refused: bool = False
    """This node opens it for nobody."""


def facts_of(source: str) -> SourceFacts:
    """Returns the facts. The first frame of a video file is read; a URL is not opened, but this machine has to be able
    to read it: see `probe`."""
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
    with closing(video.frames()) as frames:
        width, height = _size_of_first(frames, path.name)
        return SourceFacts(_cut(video, path), width, height, video.fps)


def probe(source: str) -> SourceFacts:
    """Returns the facts of a live source, which is opened; takes some seconds."""
    try:
        video, name, _ = open_video_source(source)
        with closing(video.frames()) as frames:
            width, height = _size_of_first(frames, name)
            return SourceFacts("", width, height, video.fps or _measure_fps(frames), is_live=True)
    except SourceUnusable as error:
        return SourceFacts(error.message, is_live=True)


def _size_of_first(frames: Iterator[LazyFrame], name: str) -> tuple[int, int]:
    """Reads up to the first intact frame; returns its width and height.

    Raises:
        SourceUnusable: There is none.
    """
    reason = "it has none"
    for lazy_frame in islice(frames, TRIED):
        try:
            if lazy_frame.read is not None:
                height, width = lazy_frame.read().shape[:2]
                return width, height
        except DamagedPicture as error:
            reason = error.message
        else:
            reason = lazy_frame.reason
    raise SourceUnusable(f"{name}: not one frame can be read: {reason}")


def _measure_fps(frames: Iterator[LazyFrame]) -> float:  # 0: it ends too soon
    began = time.monotonic()
    for count, _ in enumerate(frames, 1):
        lasted_s = time.monotonic() - began
        if lasted_s >= RATE_S:
            return float(max(1, round(count / lasted_s)))
    return 0.0


def _cut(video: Video, path: Path) -> str:
    if not is_cut(path):
        return ""
    there = video.there()
    return f"{path.name} is cut off: {there or 'its end is missing'}"
