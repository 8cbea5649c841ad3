"""From the source to the queue, pass after pass, and what happens when the source ends or fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from app.edge.video.runner.frame_context import CapturedFrame
from app.edge.video.runner.frame_generator import Generator
from app.edge.video.runner.frame_queues import FrameQueue
from app.edge.video.runner.plan_metrics import PlanMetrics
from app.inference.errors import SourceUnusable
from app.inference.sources import open_video_source
from app.inference.sources.factory import is_live
from app.inference.sources.frames import VideoSource
from app.video.model.job import NO_SIGNAL, Ending, RestartPolicy


class JobSource:
    """The video of a job, which can be opened repeatedly."""

    def __init__(self, source: str) -> None:
        """Creates it. `source` is a path or URL."""
        self._source = source
        self.is_live = is_live(source)
        self._opened: VideoSource | None = None

    def open(self) -> VideoSource:
        """Opens the video.

        Raises:
            SourceUnusable: It is not there, or cannot be read.
        """
        self._opened = open_video_source(self._source)[0]
        return self._opened

    @property
    def fps(self) -> float:
        """Returns the frames per second of the source itself; 0 while unknown."""
        return self._opened.fps if self._opened is not None else 0.0


class Outage:
    """A time in which the source gives no picture and is opened repeatedly. Nothing is measured during it.

    Only one thread may use it; any may read silent_s and flags.
    """

    def __init__(
        self, metrics: PlanMetrics, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Creates it. `note` is called with its begin and end, for the job's events."""
        self._metrics, self._note, self._clock = metrics, note, clock
        self._last = clock()
        self._lasts = False

    @property
    def silent_s(self) -> float | None:
        """Returns the seconds since the last picture; None: pictures arrive."""
        return self._clock() - self._last if self._lasts else None

    @property
    def flags(self) -> list[str]:
        return [NO_SIGNAL] if self._lasts else []

    def failed(self, why: str) -> None:
        """Records that the source could not be read."""
        if self._lasts:
            return
        self._lasts = True
        self._metrics.pause()
        self._note(f"No signal: {why}. The source is opened again until it is back.")

    def frame(self) -> None:
        """Records that there is a picture."""
        now = self._clock()
        if self._lasts:
            self._lasts = False
            self._metrics.resume()
            self._note(f"The signal is back, after {now - self._last:.0f} s.")
        self._last = now


PAUSES_S = (1.0, 2.0, 5.0, 10.0)
"""Seconds before a failed source is opened again; the last value is repeated."""
AFTER_END = frozenset({RestartPolicy.EOS, RestartPolicy.ALWAYS})
AFTER_DAMAGE = frozenset({RestartPolicy.ERROR, RestartPolicy.ALWAYS})
logger = logging.getLogger(__name__)


class SourceReader:
    """Reads the source into the queue, pass after pass, according to the restart policy.

    The end of a stream is never intended: with any policy but `never` it is opened again.
    """

    def __init__(
        self,
        generator: Generator,
        source: JobSource,
        queue: FrameQueue[CapturedFrame],
        policy: RestartPolicy,
        *,
        outage: Outage,
        note: Callable[[str], None],
        over: Callable[[Ending, str], None],
        stopping: threading.Event,
    ) -> None:
        """
        Args:
            generator: chooses the frames.
            source: opened for each pass.
            queue: closed after the last frame.
            policy: whether the source is opened again after its end, and after a fault.
            outage: is informed of frames, and of a source that gives none.
            note: called with damage, for the job's events.
            over: called with how and why the source has ended, once all frames are in the queue.
            stopping: set when the job is ended.
        """
        self._generator, self._source, self._queue, self._policy = generator, source, queue, policy
        self._outage, self._live = outage, source.is_live
        self._note, self._over, self._stopping = note, over, stopping
        self._failed = 0
        self._damaged = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._pass()
            except SourceUnusable as error:
                if not self._goes_on_after(error.message):
                    return
            except Exception as error:  # PyAV raises anything; the policy decides whether to go on
                logger.exception("Reading the source has failed")
                if not self._goes_on_after(f"reading has failed: {type(error).__name__}: {error}"[:300]):
                    return
            else:
                if self._policy not in AFTER_END:
                    self._end(Ending.FINISHED, "the source is at its end")
                    return

    def _pass(self) -> None:
        for frame in self._generator.one_pass(self._source.open()):
            if self._stopping.is_set():
                return
            self._outage.frame()
            self._queue.put(frame)
            self._failed = 0
            self._note_damage()

    def _note_damage(self) -> None:
        """Notes damage of single frames: the first, and then each time that the number has doubled."""
        damaged = self._generator.damaged
        if damaged > 2 * self._damaged or (damaged and not self._damaged):
            self._damaged = damaged
            count = "A damaged frame was" if damaged == 1 else f"{damaged} damaged frames were"
            self._note(f"{count} left out: {self._generator.why_damaged}")

    def _goes_on_after(self, why: str) -> bool:
        if self._policy is RestartPolicy.NEVER or not (self._live or self._policy in AFTER_DAMAGE):
            self._end(Ending.ERROR, why)
            return False
        if self._live or self._failed:
            self._outage.failed(why)
        else:  # the start of a file may be intact, and is available at once
            self._note(f"The source is opened again: {why}")
        pause_s = PAUSES_S[min(self._failed, len(PAUSES_S) - 1)]
        self._failed += 1
        return not self._stopping.wait(pause_s)

    def _end(self, ending: Ending, reason: str) -> None:
        self._over(ending, reason)
        self._queue.close()
