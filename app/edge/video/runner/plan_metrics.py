"""The performance of the current plan: means of its frames since it started, or since a new one was last requested."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from app.edge.video.runner.frame_context import FrameOutcome, Timing
from app.video.model.kinds import Metric
from app.video.model.report import PlanResult

MOST_KEPT = 2000
STOPPED_S = 2.0
LEAST_RATE_S = 0.5
"""Frames within a shorter time do not tell a rate."""
SMOOTH = 0.3
"""The weight of the newest value in averages over windows."""
LEAST_WAY_BYTES = 2000
"""Bodies with fewer bytes do not tell a network's bandwidth."""


@dataclass(frozen=True)
class FrameCounts:
    """The frames that were not processed since the runner started."""

    skipped: int = 0
    dropped: int = 0
    still: int = 0


@dataclass
class _Sums:
    base: FrameCounts
    before: float | None
    """When the last frame before the window was processed; None: there was none since the source gives pictures."""
    first: float = 0.0
    """When its first frame was captured."""
    last: float = 0.0
    """When its last one was processed."""
    timings: dict[str, list[float]] = field(default_factory=dict)
    e2e: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    frames: int = 0
    tracked: int = 0
    violations: int = 0
    late_in_row: int = 0
    fallbacks: int = 0
    sent: int = 0


class PlanMetrics:
    """The metrics of the current plan. Any number of threads may use it."""

    def __init__(self, left_out: Callable[[], FrameCounts], clock: Callable[[], float] = time.monotonic) -> None:
        """Creates it. `left_out` returns the current counts of unprocessed frames; it is called at once, too."""
        self._left_out, self._clock = left_out, clock
        self._lock = threading.Lock()
        self._seq = -1
        self._limit_fps: Callable[[], float] = lambda: math.inf
        self._fps: float | None = None
        """The rate in the plan's last window that was long enough."""
        self._is_paused = False
        self._sums = _Sums(left_out(), None)
        self._quality: dict[Metric, dict[str, float]] = {}
        self._up_mbps: dict[str, float] = {}
        self.processed_in_all = 0

    def begin(self, seq: int, limit_fps: Callable[[], float] = lambda: math.inf) -> None:
        """Starts a new plan; the quality of the previous one does not count for it.

        Args:
            seq: its number.
            limit_fps: returns how many frames per second it has processed at most, which may become less once the
                source is known. More than that within a window are frames that the window before was short of, or that
                a stream's server had kept.
        """
        with self._lock:
            self._seq = seq
            self._limit_fps = limit_fps
            self._quality = {}
            self._begin_window()
            self._fps = None

    def pause(self) -> None:
        """Records that there is nothing to process: earlier figures are no longer valid."""
        with self._lock:
            self._is_paused = True

    def resume(self) -> None:
        with self._lock:
            self._is_paused = False
            self._begin_window()
            self._sums.before = self._fps = None

    def requested(self) -> None:
        with self._lock:
            self._begin_window()

    @property
    def frames(self) -> int:
        return self._sums.frames

    @property
    def late_in_row(self) -> int:
        """Returns how many of the newest frames in a row took longer than the constraint allows."""
        return self._sums.late_in_row

    def processed(self, outcome: FrameOutcome, e2e_s: float, hi_s: float) -> None:
        """Counts a frame, unless its plan has been replaced."""
        with self._lock:
            self.processed_in_all += 1
            sums, now = self._sums, self._clock()
            if outcome.plan.seq != self._seq:
                sums.before = now
                return
            if not sums.frames:
                sums.first = now - e2e_s
            sums.frames += 1
            sums.last = now
            sums.e2e.append(e2e_s)
            sums.violations += e2e_s > hi_s
            sums.late_in_row = sums.late_in_row + 1 if e2e_s > hi_s else 0
            for stage, timing in outcome.timings.items():
                totals = sums.timings.setdefault(stage, [0.0, 0.0, 0.0, 0.0])
                for place, value in enumerate((1.0, timing.delay_s, timing.server_s, timing.queue_s)):
                    totals[place] += value
                sums.fallbacks += timing.is_fallback
                sums.sent += timing.sent
                self._note_bandwidth(timing)

    def tracked(self) -> None:
        with self._lock:
            self._sums.tracked += 1

    def compared(self, metric: Metric, stage: str, value: float, seq: int) -> None:
        """Records how a stage's answers compare with those of its best model. Values of an earlier plan are dropped.

        Args:
            value: from 0 to 1.
            seq: the number of the plan with which the frame was computed.
        """
        with self._lock:
            if seq != self._seq:
                return
            values = self._quality.setdefault(metric, {})
            values[stage] = value if stage not in values else values[stage] + SMOOTH * (value - values[stage])

    def result(self) -> PlanResult | None:
        """Returns the result; None if no frame of the plan was processed in the window. A pause has a result without
        frames."""
        with self._lock:
            if self._is_paused:
                return PlanResult(delay={}, fps=0.0, frames=0, plan_seq=self._seq)
            sums = self._sums
            return self._build_result(sums) if sums.frames else None

    def _build_result(self, sums: _Sums) -> PlanResult:
        left_out = self._left_out()
        p50, p95 = (float(value) for value in np.percentile(list(sums.e2e), (50, 95)))
        result = PlanResult(
            delay=_compute_means(sums.timings, 1),
            server=_compute_means(sums.timings, 2),
            queue=_compute_means(sums.timings, 3),
            e2e_p50=round(p50, 6),
            e2e_p95=round(p95, 6),
            frames=sums.frames,
            tracked=sums.tracked,
            skipped=left_out.skipped - sums.base.skipped,
            dropped=left_out.dropped - sums.base.dropped,
            still=left_out.still - sums.base.still,
            violations=sums.violations,
            bytes_up=round(sums.sent / sums.frames, 1),
            fallbacks=sums.fallbacks,
            plan_seq=self._seq,
        )
        if (fps := self._measure_fps(sums)) is not None:
            result["fps"] = round(fps, 3)
        if self._up_mbps:
            result["up_mbps"] = {node: round(value, 3) for node, value in self._up_mbps.items()}
        if self._quality.get(Metric.IOU):
            result["iou"] = {stage: round(value, 4) for stage, value in self._quality[Metric.IOU].items()}
        if self._quality.get(Metric.MAE):
            result["mae"] = {stage: round(value, 3) for stage, value in self._quality[Metric.MAE].items()}
        return result

    def _measure_fps(self, sums: _Sums) -> float | None:
        """Returns the rate at which frames follow each other, until now if they have stopped coming; None: not known
        yet. How soon after the start of the window the first one comes does not matter."""
        now = self._clock()
        end = sums.last if now - sums.last < STOPPED_S else now
        start, followers = (sums.first, sums.frames - 1) if sums.before is None else (sums.before, sums.frames)
        return min(followers / (end - start), self._limit_fps()) if end - start >= LEAST_RATE_S else self._fps

    def _begin_window(self) -> None:
        sums = self._sums
        if sums.frames:
            self._fps = self._measure_fps(sums)
        self._sums = _Sums(self._left_out(), sums.last if sums.frames else sums.before)

    def _note_bandwidth(self, timing: Timing) -> None:
        if timing.sent < LEAST_WAY_BYTES or timing.way_s <= 0:
            return
        mbps = timing.sent * 8 / timing.way_s / 1e6
        before = self._up_mbps.get(timing.node, mbps)
        self._up_mbps[timing.node] = before + SMOOTH * (mbps - before)


def _compute_means(timings: Mapping[str, list[float]], place: int) -> dict[str, float]:
    return {stage: round(totals[place] / totals[0], 6) for stage, totals in timings.items()}
