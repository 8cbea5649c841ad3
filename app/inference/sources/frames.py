"""A source of frames: passes over an input, at a rate, skipping damaged frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.prediction import Picture


@dataclass(frozen=True)
class Frame:
    """A picture from a source."""

    index: int
    """Number of the frame in the source, from 0, continuing through repetitions."""
    picture: Picture
    origin: str
    """Where it comes from, for readers."""
    truth: int | None = None
    """The class of a labelled picture."""


@dataclass(frozen=True)
class LazyFrame:
    """A frame of a pass, whose pixels are unpacked when needed."""

    origin: str
    """Where it comes from, for readers."""
    read: Callable[[], Picture] | None
    """Returns the pixels, or raises DamagedPicture; None for a frame known to be damaged."""
    at: float | None = None
    """Seconds from the start of the pass; None for a frame without a time."""
    truth: int | None = None
    """The class of a labelled picture."""
    reason: str = ""
    """Why it is damaged."""
    is_cut: bool = False
    """The frames after it are lost, too."""


class VideoSource(Protocol):
    """Can be read from its start repeatedly."""

    fps: float
    """Frames a second of the source itself, known from its first pass on; 0 if unknown."""
    is_endless: bool
    """True for a camera, which has no end: when it stops, it is gone. Known from the first pass on."""

    def frames(self) -> Generator[LazyFrame, None, None]:
        """Yields one pass. Closing the iterator releases its resources.

        Raises:
            SourceUnusable: The source cannot be read.
        """


class Source:
    """An iterator of frames. For one thread.

    Args:
        name: for messages.
        loop: begin again at its end.
        is_live: it comes by itself, and does not wait for its reader.
    """

    def __init__(self, source: VideoSource, name: str, pace: Pace, *, loop: bool, is_live: bool = False) -> None:
        self.name = name
        self.is_live = is_live
        """It is live, and does not wait for its reader."""
        self.damaged = 0
        """Number of frames that were omitted because they cannot be read."""
        self.why_damaged = ""
        """Reason for the last of them."""
        self._frames = self._iterate_all(source, pace, loop=loop)

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        """Returns the next frame.

        Raises:
            SourceUnusable: The source is gone, a live one has stopped, or a whole pass had no frame.
        """
        return next(self._frames)

    def close(self) -> None:
        self._frames.close()

    def _iterate_all(self, source: VideoSource, pace: Pace, *, loop: bool) -> Generator[Frame, None, None]:
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


LATE_S = 1.0
"""A reader that is later than this, in seconds, does not catch up: the pass continues from there."""
OLD_S = 0.5
"""A live frame that is later than this, in seconds, is old."""
ROUNDING = 1e-6


class Pace:
    """At most so many frames a second.

    What has a time of its own (video) is thinned out by that time and given at that time; what has none (pictures) is
    given whole, evenly. What is live comes by itself, so nothing waits for it: it is thinned out, and what has become
    old while its reader was busy is omitted, so that the reader keeps up.

    Args:
        fps: frames a second at most; 0: all of them, as fast as they are asked for.
        clock: in seconds, steady.
        sleep: is given seconds.
        live: it comes by itself.
    """

    def __init__(
        self, fps: float, clock: Callable[[], float], sleep: Callable[[float], object], *, live: bool = False
    ) -> None:
        self._fps, self._clock, self._sleep, self._live = fps, clock, sleep, live
        self._start: float | None = None
        self._slot = -1
        self._given = 0
        self._lead = -math.inf

    def begin(self) -> None:
        """Starts a pass."""
        self._start, self._slot, self._given, self._lead = None, -1, 0, -math.inf

    def change(self, fps: float) -> None:
        """Changes the rate from the next frame on. Frames with times keep these; frames without are counted again."""
        if fps == self._fps:
            return
        if self._slot < 0:
            self._start = None
        self._fps, self._slot, self._given = fps, -1, 0

    def wants(self, at: float | None) -> bool:
        """Returns whether the frame with this time is used."""
        now = self._measure_elapsed() if self._live else at
        if self._live and at is not None and self._is_old(at):
            return False
        if self._fps <= 0 or now is None:
            return True
        slot = math.floor((now + ROUNDING) * self._fps)
        if slot <= self._slot:
            return False
        self._slot = slot
        return True

    def wait(self, at: float | None) -> None:
        """Waits until the frame is due."""
        if self._fps <= 0 or self._live:
            return
        due = self._given / self._fps if at is None else at
        self._given += 1
        early = due - self._measure_elapsed()
        if early > 0:
            self._sleep(early)
        elif early < -LATE_S and self._start is not None:
            self._start -= early

    def _is_old(self, at: float) -> bool:
        """Compares with the earliest frame so far, whose delay is assumed to be the shortest possible."""
        lead = at - self._measure_elapsed()
        self._lead = max(self._lead, lead)
        return self._lead - lead > OLD_S

    def _measure_elapsed(self) -> float:
        now = self._clock()
        if self._start is None:
            self._start = now
        return now - self._start
