"""Generators: which frames of the source are processed, tracked and left out, and when each of them is taken.

A video's rate is kept by its own time, so that a slow reader and a fast one choose the same frames of it. Of frames
that are left out no pixel is touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from app.edge.video.runner.resize import in_colour
from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.prediction import Picture
from app.inference.sources.frames import Shot, VideoSource
from app.inference.sources.pace import Pace
from app.video.model.plan import VideoConf


@dataclass(frozen=True)
class Taken:
    """A frame. n_loop: counts the frames of the stream, those left out among them. at: its time in the source, seconds,
    None where it has none. captured: when it was taken, of the monotonic clock. clip: of a ClipGenerator's frame all
    pictures of the clip, itself first."""

    n_loop: int
    picture: Picture
    at: float | None
    captured: float
    tracked: bool = False
    clip: tuple[Picture, ...] = ()


class Generator:
    """conf: what is to be done now; asked at each frame. clips: gather a cycle's frames before its first is given.

    skipped, damaged: frames left out, and that could not be read; why_damaged: the reason of the last of them. For one
    thread.
    """

    def __init__(
        self,
        conf: Callable[[], VideoConf],
        *,
        clips: bool = False,
        realtime: bool = True,
        live: bool = False,
        n_loop: int = 0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.n_loop = n_loop
        self.skipped = 0
        self.damaged = 0
        self.why_damaged = ""
        self._conf, self._clips, self._realtime, self._clock = conf, clips, realtime, clock
        self._now = conf()
        self._pace = Pace(self._now.fps, clock, sleep, live=live)
        self._place = 0
        self._clip: list[Taken] = []
        self._is_timed = True

    def one_pass(self, reel: VideoSource) -> Iterator[Taken]:
        """Raises SourceUnusable where the source is gone, is cut off, or gave not one frame."""
        if self._is_timed:
            self._pace.begin()
        self._place, given = 0, 0
        with closing(reel.shots()) as shots:
            for shot in shots:
                self._look_again()
                for taken in self._of(shot):
                    given += 1
                    yield taken
        for taken in self._whole_clip():
            given += 1
            yield taken
        if not given:
            raise SourceUnusable(f"not one frame could be read: {self.why_damaged or 'there is none'}")

    def _look_again(self) -> None:
        conf = self._conf()
        if conf == self._now:
            return
        self._pace.change(conf.fps)
        if (conf.nskip, conf.ntracking) != (self._now.nskip, self._now.ntracking) and not self._clip:
            self._place = 0
        self._now = conf

    def _of(self, shot: Shot) -> Iterator[Taken]:
        if shot.read is None:
            if shot.is_cut:
                yield from self._whole_clip()
                raise SourceUnusable(f"the source is cut off: {shot.reason}", hint="Give a whole one.")
            self._note(shot, shot.reason)
            return
        if not self._pace.wants(shot.at):
            return
        self._is_timed = shot.at is not None
        if self._realtime:
            self._pace.wait(shot.at)
        self.n_loop += 1
        place = self._place
        self._place = (place + 1) % (1 + self._now.ntracking + self._now.nskip)
        if place > self._now.ntracking:
            self.skipped += 1
        else:
            yield from self._taken(shot, place)
        if place >= self._now.ntracking:
            yield from self._whole_clip()

    def _taken(self, shot: Shot, place: int) -> Iterator[Taken]:
        assert shot.read is not None
        captured = self._clock()
        try:
            picture = in_colour(shot.read())
        except DamagedPicture as error:
            self._note(shot, error.message)
            self._place = 0 if place == 0 else self._place
            return
        taken = Taken(self.n_loop, picture, shot.at, captured, tracked=place > 0)
        if self._clips:
            self._clip.append(taken)
        else:
            yield taken

    def _whole_clip(self) -> Iterator[Taken]:
        if not self._clip:
            return
        clip, self._clip = self._clip, []
        first = clip[0]
        pictures = tuple(taken.picture for taken in clip)
        yield Taken(first.n_loop, first.picture, first.at, first.captured, clip=pictures)
        yield from clip[1:]

    def _note(self, shot: Shot, reason: str) -> None:
        self.damaged += 1
        self.why_damaged = f"{shot.origin}: {reason}"
