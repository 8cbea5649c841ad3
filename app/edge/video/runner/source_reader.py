"""From the source to the queue: which frames are processed, tracked and left out, when each of them is taken, and what
happens when the source ends or fails.

A video's rate is kept by its own time, so that a slow reader and a fast one choose the same frames of it. Of frames
that are left out no pixel is touched.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from app.edge.video.runner.frame_context import Taken
from app.edge.video.runner.frame_workers import FrameQueue
from app.edge.video.runner.plan_metrics import PlanMetrics
from app.edge.video.runner.resize import in_colour
from app.inference.errors import DamagedPicture, SourceUnusable
from app.inference.sources.frames import Shot, VideoSource
from app.inference.sources.pace import Pace
from app.video.model.job import Ending, RestartPolicy
from app.video.model.plan import VideoConf


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


NO_SIGNAL = "no_signal"
"""Flag of a job in such a time."""


class Outage:
    """note: for the job's events. While one lasts nothing is measured. For one thread; silent_s and flags for any."""

    def __init__(
        self, measuring: PlanMetrics, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._measuring, self._note, self._clock = measuring, note, clock
        self._last = clock()
        self._lasts = False

    @property
    def silent_s(self) -> float | None:
        """Since the last picture; None: they come."""
        return self._clock() - self._last if self._lasts else None

    @property
    def flags(self) -> list[str]:
        return [NO_SIGNAL] if self._lasts else []

    def failed(self, why: str) -> None:
        """The source was to be read, and was not."""
        if self._lasts:
            return
        self._lasts = True
        self._measuring.pause()
        self._note(f"No signal: {why}. The source is opened again until it is back.")

    def frame(self) -> None:
        """There is a picture."""
        now = self._clock()
        if self._lasts:
            self._lasts = False
            self._measuring.resume()
            self._note(f"The signal is back, after {now - self._last:.0f} s.")
        self._last = now


PAUSES_S = (1.0, 2.0, 5.0, 10.0)
"""Before a source that failed is opened again; the last of them from then on."""
AFTER_END = frozenset({RestartPolicy.EOS, RestartPolicy.ALWAYS})
AFTER_DAMAGE = frozenset({RestartPolicy.ERROR, RestartPolicy.ALWAYS})
logger = logging.getLogger(__name__)


class SourceReader:
    """open_reel: a fresh look at the source; raises SourceUnusable. live: it is a stream, whose end is not meant: with
    any policy but never it is opened again. note: told what was damaged. over: told how and why the source has ended,
    once all frames are in the queue."""

    def __init__(
        self,
        generator: Generator,
        open_reel: Callable[[], VideoSource],
        queue: FrameQueue[Taken],
        policy: RestartPolicy,
        *,
        live: bool,
        outage: Outage,
        note: Callable[[str], None],
        over: Callable[[Ending, str], None],
        stopping: threading.Event,
        pauses_s: tuple[float, ...] = PAUSES_S,
    ) -> None:
        self._generator, self._open, self._queue, self._policy = generator, open_reel, queue, policy
        self._outage, self._live = outage, live
        self._note, self._over, self._stopping, self._pauses_s = note, over, stopping, pauses_s
        self._failed = 0
        self._damaged = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._pass()
            except SourceUnusable as error:
                if not self._goes_on_after(error.message):
                    return
            except Exception as error:
                logger.exception("Reading the source has failed")
                if not self._goes_on_after(f"reading has failed: {type(error).__name__}: {error}"[:300]):
                    return
            else:
                if self._policy not in AFTER_END:
                    self._end(Ending.FINISHED, "the source is at its end")
                    return

    def _pass(self) -> None:
        for frame in self._generator.one_pass(self._open()):
            if self._stopping.is_set():
                return
            self._outage.frame()
            self._queue.put(frame)
            self._failed = 0
            self._say_damage()

    def _say_damage(self) -> None:
        """Of single frames: the first, and then each time that there are twice as many."""
        damaged = self._generator.damaged
        if damaged > 2 * self._damaged or (damaged and not self._damaged):
            self._damaged = damaged
            said = "A damaged frame was" if damaged == 1 else f"{damaged} damaged frames were"
            self._note(f"{said} left out: {self._generator.why_damaged}")

    def _goes_on_after(self, why: str) -> bool:
        if self._policy is RestartPolicy.NEVER or not (self._live or self._policy in AFTER_DAMAGE):
            self._end(Ending.ERROR, why)
            return False
        if self._live or self._failed:
            self._outage.failed(why)
        else:  # the begin of a file may be whole, and is there at once
            self._note(f"The source is opened again: {why}")
        pause_s = self._pauses_s[min(self._failed, len(self._pauses_s) - 1)]
        self._failed += 1
        return not self._stopping.wait(pause_s)

    def _end(self, ending: Ending, reason: str) -> None:
        self._over(ending, reason)
        self._queue.close()
