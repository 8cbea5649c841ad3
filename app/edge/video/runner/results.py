"""What becomes of frames that have been processed or are to be tracked: rows, scenes to be drawn, figures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.edge.video.runner.dag_requirements import DagRequirements
from app.edge.video.runner.frame_context import Outcome, counted
from app.edge.video.runner.frame_workers import Done
from app.edge.video.runner.plan_metrics import PlanMetrics
from app.edge.video.runner.preview import PreviewRenderer, Scene
from app.edge.video.runner.reference_sampler import ReferenceSampler
from app.edge.video.runner.reporter import Reporter
from app.edge.video.runner.resize import moved_boxes, ratio_of, size_of
from app.edge.video.runner.tracker import Tracker
from app.video.model.dag import Reference


class Results:
    """What becomes of each frame. For one thread at a time.

    Args:
        realtime: A frame's time begins when it is taken; else when work on it begins.
        source_fps: Frames a second of the source; 0 while it does not say.

    Attributes:
        newest: Of the last frame {seq, bytes, objects}, with width, height and fps of the source: what the policies are
            told as generator_output.
    """

    def __init__(
        self,
        needs: DagRequirements,
        measuring: PlanMetrics,
        reporter: Reporter,
        painter: PreviewRenderer,
        golden: ReferenceSampler,
        *,
        realtime: bool,
        source_fps: Callable[[], float],
    ) -> None:
        self._needs, self._measuring, self._reporter = needs, measuring, reporter
        self._painter, self._golden, self._realtime, self._source_fps = painter, golden, realtime, source_fps
        self.newest: dict[str, Any] = {}
        self._last: Outcome | None = None
        self._tracker = Tracker()

    def take(self, done: Done, hi_s: float) -> None:
        """In the order of the frames. hi_s: above it a frame violates the constraint."""
        if done.outcome is not None:
            self._processed(done, done.outcome, hi_s)
        else:
            self._tracked(done)

    def _processed(self, done: Done, outcome: Outcome, hi_s: float) -> None:
        frame = done.frame
        boxes = self._boxes_of(outcome)
        e2e_s = self._since(done)
        self._measuring.processed(outcome, e2e_s, hi_s)
        self._last = outcome
        if boxes is not None:
            self._tracker.begin(frame.picture, boxes, outcome.size)
        self._tell(done, outcome, boxes, e2e_s)
        self._golden.offer(frame, outcome)

    def _tracked(self, done: Done) -> None:
        """A tracked frame before the first that was processed has nothing to carry on."""
        if self._last is None:
            return
        outcome = self._last
        boxes = self._boxes_of(outcome)
        if boxes is not None:
            boxes = self._tracker.follow(done.frame.picture)
            outcome = replace(outcome, values={**outcome.values, self._tracks: boxes})
        self._measuring.tracked()
        self._tell(done, outcome, boxes, self._since(done))

    def _since(self, done: Done) -> float:
        return time.monotonic() - (done.frame.captured if self._realtime else done.began)

    def _tell(self, done: Done, outcome: Outcome, boxes: list[list[float]] | None, e2e_s: float) -> None:
        frame = done.frame
        row: dict[str, Any] = {
            **counted(self._needs, outcome.values),
            "n_loop": frame.n_loop,
            "e2e": round(e2e_s, 6),
            "tracked": frame.tracked,
        }
        if boxes is not None:
            ratio = ratio_of(outcome.size, size_of(frame.picture))
            row["bbox"] = [[round(side, 1) for side in box] for box in moved_boxes(boxes, ratio)]
        json.dumps(row)  # what cannot be said is nobody's result
        self._reporter.result(row)
        sent = sum(timing.sent for timing in outcome.timings.values())
        width, height = size_of(frame.picture)
        self.newest = {
            "seq": frame.n_loop,
            "bytes": sent,
            "objects": len(boxes) if boxes is not None else 0,
            "width": width,
            "height": height,
            **self._rate(),
        }
        self._painter.show(Scene(frame.n_loop, frame.picture, outcome.values, outcome.size))

    def _rate(self) -> dict[str, float]:
        fps = self._source_fps()
        return {"fps": round(fps, 3)} if fps else {}

    @property
    def _tracks(self) -> Reference:
        return Reference(self._needs.tracked, self._needs.kinds[self._needs.tracked].tracks)

    def _boxes_of(self, outcome: Outcome) -> list[list[float]] | None:
        return outcome.values.get(self._tracks) if self._needs.tracked else None
