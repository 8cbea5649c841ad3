"""Between the source and the results: a short queue of frames, the threads that work on a few of them at once, and the
results in the order of the frames. Too many failures in a row end the job.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.edge.media.picture_sizes import size_of
from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, FrameFailed, FrameOutcome
from app.edge.video.runner.frame_queues import ConcurrencyLimit, FrameQueue, ReorderBuffer
from app.edge.video.runner.resize import fit_size
from app.video.model.plan import Encoder, Plan

MOST_IN_A_ROW = 20
MOST_S = 30.0
"""The number of failures, and the seconds of failures, that end a job."""
NOTED_S = 60.0
"""Seconds between two notes about one stage."""


class FailureBudget:
    """Counts frames that got no result. Only one thread may use it."""

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Creates it. `note` is called with a stage's first failure, and with later ones after NOTED_S."""
        self._note, self._clock = note, clock
        self._row = 0
        self._since = 0.0
        self._noted: dict[str, float] = {}
        self.frames = 0
        """The number of failed frames."""
        self.last = ""
        """The reason of the last failure."""

    def good(self) -> None:
        self._row = 0

    def failed(self, failure: FrameFailed) -> str:
        """Returns why the job has to end; empty: it continues, as it always does if the stage is not at fault."""
        self.frames += 1
        self.last = str(failure)
        now = self._clock()
        if now - self._noted.get(failure.stage, -NOTED_S) >= NOTED_S:
            self._noted[failure.stage] = now
            self._note(f"Frames are dropped: {failure}")
        if not failure.is_fault:
            return ""
        self._since = now if self._row == 0 else self._since
        self._row += 1
        if self._row < MOST_IN_A_ROW and now - self._since < MOST_S:
            return ""
        count, self._row = self._row, 0
        return f"stage {failure.stage} has failed on {count} frames in a row: {failure.reason}"


SMOOTH = 0.2
"""The weight of the newest frame in the mean time of a frame."""
YOUNG_S = 1.0
"""Seconds: a live frame whose hosts are unreachable is retried until it is this old; other frames until success."""
PAUSE_S = 0.2
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FrameResult:
    """The result of a frame."""

    frame: CapturedFrame
    began: float
    """When its processing started, in monotonic seconds."""
    outcome: FrameOutcome | None = None
    """None for a tracked frame and for a failed one."""
    failure: FrameFailed | None = None


class FrameWorkers:
    """Threads that process frames, a few at once."""

    def __init__(
        self,
        queue: FrameQueue[CapturedFrame],
        executor: Executor,
        plan: Callable[[], Plan | None],
        give: Callable[[FrameResult], None],
        *,
        realtime: bool,
        on_over: Callable[[], None],
    ) -> None:
        """
        Args:
            queue: the frames.
            executor: runs the DAG on a frame.
            plan: returns the current plan.
            give: called with each frame, in order, one at a time.
            realtime: whether frames become outdated, as those of a live job.
            on_over: called after the last frame.
        """
        self._queue, self._executor, self._plan, self._give = queue, executor, plan, give
        self._realtime, self._on_over = realtime, on_over
        self._took_s = 0.0
        self._limit = ConcurrencyLimit(realtime=realtime)
        self._results: ReorderBuffer[FrameResult] = ReorderBuffer(self._deliver)
        self._taking = threading.Lock()
        self._stopping = threading.Event()
        self._left = ConcurrencyLimit.MOST
        self._threads = [
            threading.Thread(target=self._run, name=f"lane-{number}", daemon=True)
            for number in range(ConcurrencyLimit.MOST)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Abandons frames in progress."""
        self._stopping.set()
        self._queue.close()

    def _run(self) -> None:
        while not self._stopping.is_set() and self._work():
            pass
        with self._taking:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._on_over()

    def _work(self) -> bool:
        """Processes one frame. False: there are no more."""
        self._limit.enter()
        try:
            with self._taking:
                frame = self._queue.take(self._is_outdated)
                if frame is None:
                    return False
                ticket = self._results.ticket()
            self._results.settle(ticket, self._make_result(frame))
        finally:
            self._limit.leave()
        return True

    def _is_outdated(self, frame: CapturedFrame) -> bool:
        """Whether a frame would violate the constraint although it takes no longer than others: processing it would
        only delay those after it."""
        return time.monotonic() - frame.captured + self._took_s > self._executor.hi_s

    def _make_result(self, frame: CapturedFrame) -> FrameResult:
        began = time.monotonic()
        if frame.tracked:
            return FrameResult(frame, began)
        try:
            return self._process(frame, began)
        except FrameFailed as failure:
            return FrameResult(frame, began, failure=failure)
        except Exception as error:  # one frame's fault must not stop the job
            logger.exception("Frame %s has failed", frame.n_loop)
            return FrameResult(frame, began, failure=FrameFailed("runner", f"{type(error).__name__}: {error}"[:300]))

    def _process(self, frame: CapturedFrame, began: float) -> FrameResult:
        while True:
            plan = self._plan()
            assert plan is not None, "frames are taken under a plan"
            even = plan.video_conf.encoder is Encoder.H264
            size = fit_size(size_of(frame.picture), plan.video_conf.resolution, even=even)
            try:
                outcome = self._executor.run(frame, plan, size, name=str(frame.n_loop))
            except FrameFailed as failure:
                is_old = self._realtime and time.monotonic() - frame.captured > YOUNG_S
                if failure.is_fault or is_old or self._stopping.wait(PAUSE_S):
                    raise
                continue
            waited, took_s = sum(timing.queue_s for timing in outcome.timings.values()), time.monotonic() - began
            self._limit.measured(waited, took_s)
            self._took_s += SMOOTH * (took_s - self._took_s)
            return FrameResult(frame, began, outcome)

    def _deliver(self, result: FrameResult) -> None:
        try:
            self._give(result)
        except Exception:  # one lost result must not stop the next
            logger.exception("What was found in frame %s is lost", result.frame.n_loop)
