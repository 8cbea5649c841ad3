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
    """index: counts what the source gave, from 0, on through repetitions. origin: where it comes from, for a reader.
    truth: the class of a labelled picture."""

    index: int
    picture: Picture
    origin: str
    truth: int | None = None


@dataclass(frozen=True)
class Shot:
    """One frame of a pass. at: when it is shown, in seconds from the pass's begin; None: whenever asked.
    read: gives the pixels, raises DamagedPicture; None for one that is known to be damaged already, for that reason.
    is_cut: what would have followed cannot be found any more."""

    origin: str
    read: Callable[[], Picture] | None
    at: float | None = None
    truth: int | None = None
    reason: str = ""
    is_cut: bool = False


class VideoSource(Protocol):
    """What can be passed over, again and again."""

    fps: float
    """Frames a second of the source itself, from its first pass on; 0: it does not say."""
    is_endless: bool
    """A camera has no end: when it stops, it is gone. Known from the first pass on."""

    def shots(self) -> Generator[Shot, None, None]:
        """One pass. Raises SourceUnusable. Closing the iterator gives back what it holds."""


class Source:
    """An iterator of frames. Not for more than one thread.

    damaged: how many frames were left out because they cannot be read; why_damaged: the reason of the last of them.
    is_live: it comes by itself, and does not wait for its reader.
    """

    def __init__(self, reel: VideoSource, name: str, pace: Pace, *, loop: bool, is_live: bool = False) -> None:
        self.name = name
        self.is_live = is_live
        self.damaged = 0
        self.why_damaged = ""
        self._frames = self._all(reel, pace, loop=loop)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        """Raises SourceUnusable when the source is gone, a live one also in the middle, or a whole pass gave not one
        frame."""
        return next(self._frames)

    def close(self) -> None:
        self._frames.close()

    def _all(self, reel: VideoSource, pace: Pace, *, loop: bool) -> Generator[Frame, None, None]:
        index = 0
        while True:
            before = index
            pace.begin()
            with closing(reel.shots()) as shots:
                for shot in shots:
                    if shot.is_cut and self.is_live:
                        raise SourceUnusable(f"{self.name} broke off: {shot.reason}", hint="Is it there, and in reach?")
                    picture = self._read(shot) if shot.read is None or pace.wants(shot.at) else None
                    if picture is None:
                        continue
                    pace.wait(shot.at)
                    yield Frame(index, picture, shot.origin, shot.truth)
                    index += 1
            if index == before:
                raise SourceUnusable(
                    f"{self.name} gave not one frame: {self.why_damaged or 'there is none'}",
                    hint="Give another source.",
                )
            if reel.is_endless:
                raise SourceUnusable(f"{self.name} sends nothing more", hint="Is it there, and in reach?")
            if not loop:
                return

    def _read(self, shot: Shot) -> Picture | None:
        reason = shot.reason
        if shot.read is not None:
            try:
                return shot.read()
            except DamagedPicture as error:
                reason = error.message
        self.damaged += 1
        self.why_damaged = f"{shot.origin}: {reason}"
        return None
