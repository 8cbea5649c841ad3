"""The thread that reads the source, pass after pass, as the restart policy says."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from app.edge.video.runner.frame_queue import FrameQueue
from app.edge.video.runner.generator import Generator, Taken
from app.edge.video.runner.outage import Outage
from app.inference.errors import SourceUnusable
from app.inference.sources.frames import VideoSource
from app.video.model.job import Ending, RestartPolicy

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
