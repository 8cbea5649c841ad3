"""Threads that work on frames, a few at once; what becomes of the frames is given on in their order."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import FrameFailed, Outcome
from app.edge.video.runner.frame_queue import Allowance, FrameQueue, InOrder
from app.edge.video.runner.generator import Taken
from app.edge.video.runner.resize import fitted, size_of
from app.video.model.plan import Encoder, Plan

YOUNG_S = 1.0
"""A live frame whose hosts are not there just now is tried again until it is that old; another until it is done."""
PAUSE_S = 0.2
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """What became of a frame. began: when work on it began, of the monotonic clock. Tracked ones have no outcome."""

    frame: Taken
    began: float
    outcome: Outcome | None = None
    failure: FrameFailed | None = None


class FrameWorkers:
    """plan: in force now. give: told of each frame, in order, one at a time. on_over: when there are no more."""

    def __init__(
        self,
        queue: FrameQueue[Taken],
        executor: Executor,
        plan: Callable[[], Plan | None],
        give: Callable[[Done], None],
        *,
        realtime: bool,
        on_over: Callable[[], None] = lambda: None,
    ) -> None:
        self._queue, self._executor, self._plan, self._give = queue, executor, plan, give
        self._realtime, self._on_over = realtime, on_over
        self.allowance = Allowance(realtime=realtime)
        self._in_order: InOrder[Done] = InOrder(self._given)
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._left = Allowance.MOST
        self._threads = [
            threading.Thread(target=self._run, name=f"lane-{number}", daemon=True) for number in range(Allowance.MOST)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Frames under way are let go."""
        self._stopping.set()
        self._queue.close()

    def _run(self) -> None:
        while not self._stopping.is_set() and self._one():
            pass
        with self._taking:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._on_over()

    def _one(self) -> bool:
        self.allowance.enter()
        try:
            with self._taking:
                frame = self._queue.take()
                if frame is None:
                    return False
                ticket = self._in_order.ticket()
            self._in_order.settle(ticket, self._done(frame))
        finally:
            self.allowance.leave()
        return True

    def _done(self, frame: Taken) -> Done:
        began = time.monotonic()
        if frame.tracked:
            return Done(frame, began)
        try:
            return self._tried(frame, began)
        except FrameFailed as failure:
            return Done(frame, began, failure=failure)
        except Exception as error:
            logger.exception("Frame %s has failed", frame.n_loop)
            return Done(frame, began, failure=FrameFailed("runner", f"{type(error).__name__}: {error}"[:300]))

    def _tried(self, frame: Taken, began: float) -> Done:
        while True:
            plan = self._plan()
            assert plan is not None, "frames are taken under a plan"
            even = plan.video_conf.encoder is Encoder.H264
            size = fitted(size_of(frame.picture), plan.video_conf.resolution, even=even)
            try:
                outcome = self._executor.run(frame, plan, size, name=str(frame.n_loop))
            except FrameFailed as failure:
                is_old = self._realtime and time.monotonic() - frame.captured > YOUNG_S
                if failure.is_fault or is_old or self._stopping.wait(PAUSE_S):
                    raise
                continue
            waited = sum(timing.queue_s for timing in outcome.timings.values())
            self.allowance.heard(waited, time.monotonic() - began)
            return Done(frame, began, outcome)

    def _given(self, done: Done) -> None:
        try:
            self._give(done)
        except Exception:
            logger.exception("What was found in frame %s is lost", done.frame.n_loop)
