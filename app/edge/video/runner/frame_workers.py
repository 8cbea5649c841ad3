"""Between the source and the results: a short queue of frames, the threads that work on a few of them at once, and the
results in the order of the frames. Too many failures in a row end the job.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, FrameFailed, Outcome
from app.edge.video.runner.resize import fitted, size_of
from app.video.model.plan import Encoder, Plan

ROOM = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


class FrameQueue(Generic[Item]):
    """A short queue between one thread that reads frames and several that work on them."""

    def __init__(self, *, leaky: bool, room: int = ROOM) -> None:
        """Creates an empty queue. If it is full, a leaky one drops its oldest item; otherwise `put` waits."""
        self.leaky, self.room = leaky, room
        self.dropped = 0
        """Number of dropped items."""
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= self.room

    def put(self, item: Item) -> None:
        """Adds an item; a closed queue ignores it."""
        with self._changed:
            if self.leaky and self.is_full:
                self._items.popleft()
                self.dropped += 1
            self._changed.wait_for(lambda: not self.is_full or self._is_closed)
            if not self._is_closed:
                self._items.append(item)
            self._changed.notify_all()

    def take(self) -> Item | None:
        """Waits for an item. None: the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed)
            item = self._items.popleft() if self._items else None
            self._changed.notify_all()
            return item

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class ReorderBuffer(Generic[Result]):
    """Passes results on in the order of their tickets, one at a time, in the thread that settles the next in turn."""

    def __init__(self, give: Callable[[Result], None], *, ahead: int = 32) -> None:
        """
        Args:
            give: called with each result.
            ahead: the number of unsettled tickets from which `ticket` waits.
        """
        self._give, self._ahead = give, ahead
        self._settled: dict[int, Result] = {}
        self._out = 0
        self._next = 0
        self._changed = threading.Condition()
        self._giving = threading.Lock()

    def ticket(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._out - self._next < self._ahead)
            self._out += 1
            return self._out - 1

    def settle(self, ticket: int, result: Result) -> None:
        with self._changed:
            self._settled[ticket] = result
        with self._giving:
            while (next_result := self._due()) is not None:
                try:
                    self._give(next_result)
                finally:
                    with self._changed:
                        self._next += 1
                        self._changed.notify_all()

    def _due(self) -> Result | None:
        with self._changed:
            return self._settled.pop(self._next, None)


class ConcurrencyLimit:
    """The number of frames that are processed at once.

    For a live job it adapts: one fewer if frames wait at the stage hosts, otherwise one more.
    """

    LEAST, MOST = 1, 4
    HIGH, LOW = 0.3, 0.1
    """Shares of a frame's time that it waits."""

    def __init__(self, *, realtime: bool) -> None:
        self._realtime = realtime
        self.limit = 2 if realtime else self.MOST
        self._busy = 0
        self._measured = 0
        self._changed = threading.Condition()

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._busy < self.limit)
            self._busy += 1

    def leave(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def measured(self, waited_s: float, took_s: float) -> None:
        """Records a frame: the seconds that it waited at hosts, and that it took in total."""
        if not self._realtime or took_s <= 0:
            return
        with self._changed:
            self._measured += 1
            if self._measured < self.limit * 2:
                return
            self._measured = 0
            share = waited_s / took_s
            if share > self.HIGH:
                self.limit = max(self.LEAST, self.limit - 1)
            elif share < self.LOW:
                self.limit = min(self.MOST, self.limit + 1)
            self._changed.notify_all()


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
    outcome: Outcome | None = None
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
        on_over: Callable[[], None] = lambda: None,
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
                frame = self._queue.take()
                if frame is None:
                    return False
                ticket = self._results.ticket()
            self._results.settle(ticket, self._result(frame))
        finally:
            self._limit.leave()
        return True

    def _result(self, frame: CapturedFrame) -> FrameResult:
        began = time.monotonic()
        if frame.tracked:
            return FrameResult(frame, began)
        try:
            return self._processed(frame, began)
        except FrameFailed as failure:
            return FrameResult(frame, began, failure=failure)
        except Exception as error:
            logger.exception("Frame %s has failed", frame.n_loop)
            return FrameResult(frame, began, failure=FrameFailed("runner", f"{type(error).__name__}: {error}"[:300]))

    def _processed(self, frame: CapturedFrame, began: float) -> FrameResult:
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
            self._limit.measured(waited, time.monotonic() - began)
            return FrameResult(frame, began, outcome)

    def _deliver(self, result: FrameResult) -> None:
        try:
            self._give(result)
        except Exception:
            logger.exception("What was found in frame %s is lost", result.frame.n_loop)
