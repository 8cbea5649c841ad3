"""A source of frames: passes over something, at a pace, without what is damaged."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.prediction import Picture
from app.inference.sources.pace import Pace


@dataclass(frozen=True)
class Frame:
    """A picture that a source gave."""

    index: int
    """Counts the frames of the source, from 0, on through repetitions."""
    picture: Picture
    origin: str
    """Where it comes from, for a reader."""
    truth: int | None = None
    """The class of a labelled picture."""


@dataclass(frozen=True)
class LazyFrame:
    """One frame of a pass, whose pixels are unpacked when they are needed."""

    origin: str
    """Where it comes from, for a reader."""
    read: Callable[[], Picture] | None
    """Gives the pixels, raises DamagedPicture; None: the frame is known to be damaged."""
    at: float | None = None
    """When it is shown, seconds from the start of the pass; None: at any time."""
    truth: int | None = None
    """The class of a labelled picture."""
    reason: str = ""
    """Why it is damaged."""
    is_cut: bool = False
    """The frames after it are lost, too."""


class VideoSource(Protocol):
    """Can be read from its start, again and again."""

    fps: float
    """Frames a second of the source itself, from its first pass on; 0: it does not say."""
    is_endless: bool
    """A camera has no end: when it stops, it is gone. Known from the first pass on."""

    def frames(self) -> Generator[LazyFrame, None, None]:
        """One pass. Raises SourceUnusable. Closing the iterator gives back what it holds."""


class Source:
    """An iterator of frames. For one thread.

    Args:
        name: for messages.
        loop: begin anew at its end.
        is_live: it comes by itself, and does not wait for its reader.
    """

    def __init__(self, source: VideoSource, name: str, pace: Pace, *, loop: bool, is_live: bool = False) -> None:
        self.name = name
        self.is_live = is_live
        """It comes by itself, and does not wait for its reader."""
        self.damaged = 0
        """Frames that were left out because they cannot be read."""
        self.why_damaged = ""
        """Of the last of them."""
        self._frames = self._all(source, pace, loop=loop)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        """Raises SourceUnusable when the source is gone, a live one also in the middle, or a whole pass gave not one
        frame."""
        return next(self._frames)

    def close(self) -> None:
        self._frames.close()

    def _all(self, source: VideoSource, pace: Pace, *, loop: bool) -> Generator[Frame, None, None]:
        index = 0
        while True:
            before = index
            pace.begin()
            with closing(source.frames()) as frames:
                for lazy in frames:
                    if lazy.is_cut and self.is_live:
                        raise SourceUnusable(f"{self.name} broke off: {lazy.reason}", hint="Is it there, and in reach?")
                    picture = self._read(lazy) if lazy.read is None or pace.wants(lazy.at) else None
                    if picture is None:
                        continue
                    pace.wait(lazy.at)
                    yield Frame(index, picture, lazy.origin, lazy.truth)
                    index += 1
            if index == before:
                raise SourceUnusable(
                    f"{self.name} gave not one frame: {self.why_damaged or 'there is none'}",
                    hint="Give another source.",
                )
            if source.is_endless:
                raise SourceUnusable(f"{self.name} sends nothing more", hint="Is it there, and in reach?")
            if not loop:
                return

    def _read(self, lazy: LazyFrame) -> Picture | None:
        reason = lazy.reason
        if lazy.read is not None:
            try:
                return lazy.read()
            except DamagedPicture as error:
                reason = error.message
        self.damaged += 1
        self.why_damaged = f"{lazy.origin}: {reason}"
        return None
