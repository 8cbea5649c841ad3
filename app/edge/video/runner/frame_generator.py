"""Which frames of a source are processed, tracked and skipped, and when each is taken.

A video's rate follows its own time, so that a slow reader and a fast one choose the same frames. Skipped frames are not
decoded to pixels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np

from app.edge.video.runner.frame_context import CapturedFrame
from app.edge.video.runner.resize import in_colour
from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.frame_gate import EVERY_FRAME, FrameGate
from app.inference.sources.frames import LazyFrame, Pace, VideoSource
from app.video.model.plan import VideoConf

RATE_S, OTHER_RATE = 3.0, 0.15
"""Seconds over which the rate of a source is measured, and the relative difference from which it is another one."""
STILL_ROW_S = 1.0
"""Seconds: while nothing moves, one frame is passed on per interval, because its objects are still there."""


def is_slower(fps: float, other_fps: float) -> bool:
    """Returns whether a rate is clearly below another one."""
    return fps < (1 - OTHER_RATE) * other_fps


class ArrivalRate:
    """The frames per second that a live source gives; cameras with MJPEG name none, or a usual one.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.fps = 0.0
        """0 while unknown. It stays until another one is clearly different."""
        self._clock, self._count = clock, 0
        self._began: float | None = None

    def begin(self) -> None:
        """Starts a pass."""
        self._began = None

    def arrived(self) -> None:
        now = self._clock()
        lasted = 0.0 if self._began is None else now - self._began
        if self._began is not None and lasted < RATE_S:
            self._count += 1
            return
        fps = (self._count + 1) / lasted if 0 < lasted < 2 * RATE_S else self.fps  # otherwise there was an interruption
        if abs(fps - self.fps) > OTHER_RATE * self.fps:
            self.fps = float(max(1, round(fps)))
        self._began, self._count = now, 0


class Generator:
    """Chooses frames of a source according to the current plan. Only one thread may use it."""

    def __init__(
        self,
        conf: Callable[[], VideoConf],
        *,
        clips: bool = False,
        realtime: bool = True,
        live: bool = False,
        n_loop: int = 0,
        gate: FrameGate = EVERY_FRAME,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """
        Args:
            conf: returns the current configuration; called for each frame.
            clips: whether the frames of a cycle are collected before its first is passed on.
            realtime: whether each frame is passed on at its own time.
            live: whether the source delivers frames by itself and does not wait.
            n_loop: the number of the last frame before this runner.
            gate: which part of a frame is passed on, and when a frame counts as still.
            clock: monotonic seconds.
            sleep: waits for this many seconds, or until the job is ended.
        """
        self.n_loop = n_loop
        self.skipped = 0
        """Number of omitted frames."""
        self.still = 0
        """Number of frames that were not processed because nothing had moved."""
        self.damaged = 0
        """Number of frames that could not be read."""
        self.why_damaged = ""
        """The reason for the last of them."""
        self.rate = ArrivalRate(clock)
        self._conf, self._clips, self._realtime, self._clock = conf, clips, realtime, clock
        self._now = conf()
        self._gate, self._time = gate, clock()
        self._motion = gate.motion_gate(lambda: self._time)
        self._is_still, self._still_given = False, clock()
        self._pace = Pace(self._now.fps, clock, sleep, live=live)
        self._place = 0
        self._clip: list[CapturedFrame] = []
        self._is_timed = True
        self._has_read = False
        """Whether the pass has had a frame; while nothing moves, it may pass none on."""

    def one_pass(self, source: VideoSource) -> Iterator[CapturedFrame]:
        """Yields the frames.

        Raises:
            SourceUnusable: The source is gone, is cut off, or gave no frame at all.
        """
        if self._is_timed:
            self._pace.begin()
        self._place, self._has_read = 0, False
        self.rate.begin()
        with closing(source.frames()) as frames:
            for lazy_frame in frames:
                self._follow_conf()
                self.rate.arrived()
                yield from self._frames_of(lazy_frame)
        yield from self._whole_clip()
        if not self._has_read:
            raise SourceUnusable(f"not one frame could be read: {self.why_damaged or 'there is none'}")

    def _follow_conf(self) -> None:
        conf = self._conf()
        if conf == self._now:
            return
        self._pace.change(conf.fps)
        if (conf.nskip, conf.ntracking) != (self._now.nskip, self._now.ntracking) and not self._clip:
            self._place = 0
        self._now = conf

    def _frames_of(self, lazy_frame: LazyFrame) -> Iterator[CapturedFrame]:
        if lazy_frame.read is None:
            if lazy_frame.is_cut:
                yield from self._whole_clip()
                raise SourceUnusable(f"the source is cut off: {lazy_frame.reason}", hint="Give a whole one.")
            self._note(lazy_frame, lazy_frame.reason)
            return
        if not self._pace.wants(lazy_frame.at):
            return
        self._is_timed = lazy_frame.at is not None
        if self._realtime:
            self._pace.wait(lazy_frame.at)
        self.n_loop += 1
        place = self._place
        self._place = (place + 1) % (1 + self._now.ntracking + self._now.nskip)
        if place > self._now.ntracking:
            self.skipped += 1
        else:
            yield from self._capture(lazy_frame, place)
        if place >= self._now.ntracking:
            yield from self._whole_clip()

    def _capture(self, lazy_frame: LazyFrame, place: int) -> Iterator[CapturedFrame]:
        assert lazy_frame.read is not None
        captured = self._clock()
        try:
            picture = in_colour(lazy_frame.read())
        except DamagedPicture as error:
            self._note(lazy_frame, error.message)
            self._place = 0 if place == 0 else self._place
            return
        self._has_read = True
        part, crop = self._gate.part_of(picture)
        self._time = captured if self._realtime or lazy_frame.at is None else lazy_frame.at
        self._is_still = not self._motion.passes(part) if place == 0 else self._is_still
        if self._is_still and not self._gives_still(place):
            return
        whole = None if crop is None else picture
        part = np.ascontiguousarray(part)
        is_tracked = place > 0 or self._is_still
        frame = CapturedFrame(
            self.n_loop,
            part,
            lazy_frame.at,
            captured,
            tracked=is_tracked,
            source=whole,
            crop=crop,
            still=self._is_still,
        )
        if self._clips:
            self._clip.append(frame)
        else:
            yield frame

    def _gives_still(self, place: int) -> bool:
        """Counts a frame in which nothing moves. Returns whether it is passed on."""
        if place:
            self.skipped += 1
            return False
        self.still += 1
        if 0 <= self._time - self._still_given < STILL_ROW_S:
            return False
        self._still_given = self._time
        return True

    def _whole_clip(self) -> Iterator[CapturedFrame]:
        if not self._clip:
            return
        clip, self._clip = self._clip, []
        first = clip[0]
        pictures = tuple(frame.picture for frame in clip)
        yield replace(first, clip=pictures)
        yield from clip[1:]

    def _note(self, lazy_frame: LazyFrame, reason: str) -> None:
        self.damaged += 1
        self.why_damaged = f"{lazy_frame.origin}: {reason}"
