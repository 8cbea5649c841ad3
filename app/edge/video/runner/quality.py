"""Estimates the quality of the current plan without labels: occasionally a frame is also processed with the biggest
models at full size, and the plan's answers are compared with those."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.edge.media.picture_sizes import size_of
from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, DagRequirements, FrameFailed, FrameOutcome, Values
from app.edge.video.runner.resize import SAME, Ratio, fit_size, ratio_of, scale_boxes, scale_values
from app.edge.video.stages.detection import to_drawn_boxes
from app.inference.agreement import likeness
from app.inference.prediction import Box
from app.video.model.dag import Reference
from app.video.model.job import StageHost
from app.video.model.kinds import Metric, StageKind, Type
from app.video.model.plan import Encoder, Plan, Role, StagePlace

OVERLAP = 0.5
WORST_DEGREES = 30.0
Boxes = Sequence[Sequence[float]]


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (_compute_area(one) + _compute_area(other) - shared)


def pairs(boxes: Boxes, golden: Boxes) -> list[tuple[int, int]]:
    """Returns the indices of matching boxes, by greatest overlap, each box once."""
    ranked = sorted(
        ((overlap(one, other), i, j) for i, one in enumerate(boxes) for j, other in enumerate(golden)), reverse=True
    )
    matched: list[tuple[int, int]] = []
    left, right = set(range(len(boxes))), set(range(len(golden)))
    for share, i, j in ranked:
        if share < OVERLAP:
            break
        if i in left and j in right:
            matched.append((i, j))
            left.discard(i)
            right.discard(j)
    return matched


def f1(boxes: Boxes, golden: Boxes, alike: Callable[[int, int], float] = lambda _, __: 1.0) -> float:
    """Returns the F1 score, with boxes matching if they overlap by half; 1.0 if there are no boxes on either side.

    Args:
        alike: how much a pair of matching boxes counts, by their indices; 0..1.
    """
    if not boxes and not golden:
        return 1.0
    return 2 * sum(alike(i, j) for i, j in pairs(boxes, golden)) / (len(boxes) + len(golden))


def mae(values: Sequence[Any], golden: Sequence[Any], matched: Sequence[tuple[int, int]]) -> float | None:
    """Returns the mean absolute error of matched poses, in degrees; None if none match."""
    errors = [
        np.abs(np.subtract(values[i], golden[j])).mean() for i, j in matched if i < len(values) and j < len(golden)
    ]
    return float(np.mean(errors)) if errors else None


def score_stage(
    needs: DagRequirements, stage: str, outputs: Values, golden: Values, to_golden: Ratio
) -> tuple[Metric, float] | None:
    """Compares the answers of a stage.

    Args:
        needs: the requirements of the DAG.
        stage: the name of the stage.
        outputs: the answers under the plan.
        golden: the answers of the biggest models.
        to_golden: the ratio from pixels of the plan's picture to those of the reference.

    Returns:
        The metric and its value; None if the stage is not compared, or has nothing to compare.
    """
    kind = needs.kinds[stage]
    if kind.metric is Metric.NONE or not kind.compared:
        return None
    output = Reference(stage, kind.compared)
    if output not in outputs or output not in golden:
        return None
    if kind.metric is Metric.IOU:
        mine, theirs = _select_objects(kind, stage, outputs, to_golden), _select_objects(kind, stage, golden, SAME)
        boxes = scale_boxes(outputs[output], to_golden)
        return Metric.IOU, f1(boxes, golden[output], lambda i, j: likeness(mine[i], theirs[j]))
    reference = _boxes_of(needs, stage)
    if reference is None or reference not in outputs or reference not in golden:
        return None
    matched = pairs(scale_boxes(outputs[reference], to_golden), golden[reference])
    error = mae(outputs[output], golden[output], matched)
    return None if error is None else (Metric.MAE, error)


def _select_objects(kind: StageKind, stage: str, values: Values, ratio: Ratio) -> list[Box]:
    """Returns the compared boxes, with key points and masks, in scaled pixels."""
    named = {name: values[reference] for name in kind.outputs if (reference := Reference(stage, name)) in values}
    scaled = scale_values(named, kind.outputs, ratio)
    by_type = {type_: scaled[name] for name, type_ in kind.outputs.items() if name in scaled}
    keypoints, masks = by_type.get(Type.KEYPOINTS) or (), by_type.get(Type.MASKS) or ()
    return to_drawn_boxes(scaled[kind.compared], keypoints=keypoints, masks=masks)


def as_quality(metric: Metric, value: float) -> float:
    """Returns the quality from 0 to 1; 1 is as good as the reference."""
    return value if metric is Metric.IOU else max(0.0, 1 - value / WORST_DEGREES)


def _boxes_of(needs: DagRequirements, stage: str) -> Reference | None:
    """Returns the boxes to which the stage's poses belong."""
    kind = needs.kinds[stage]
    inputs = needs.dag.inputs.get(stage, {})
    named = [inputs[name] for name, type_ in kind.inputs.items() if type_ is Type.BOXES and name in inputs]
    own = [Reference(stage, name) for name, type_ in kind.outputs.items() if type_ is Type.BOXES]
    return next(iter([*named, *own]), None)


def _compute_area(box: Sequence[float]) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


EVERY_FRAMES = 50
EVERY_S = 5.0
SHARE = 0.02
"""The maximum share of time for reference frames: on a slow link, the plan's frames wait behind them."""
MOST_PAUSE_S = 30.0
RESOLUTION = "1080p"
PREPARE_S = 5.0
"""Seconds in which the biggest models are opened before a frame waits for them."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A processed frame to compare."""

    frame: CapturedFrame
    outcome: FrameOutcome


class ReferenceSampler:
    """A thread that compares the first frame and every EVERY_FRAMES-th one after it; fewer if comparing takes long."""

    def __init__(
        self,
        executor: Executor,
        compared: Callable[[Metric, str, float, int], None],
        is_busy: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            executor: runs the DAG on a frame.
            compared: called with each comparison: metric, stage, value, number of the plan.
            is_busy: returns whether too many frames wait to begin a comparison.
            clock: monotonic seconds.
        """
        self._executor, self._compared, self._is_busy, self._clock = executor, compared, is_busy, clock
        self._seen = 0
        self._due_at = -EVERY_S
        self._next: Candidate | None = None
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="golden", daemon=True)
        kinds = executor.needs.kinds
        self._stages = closure(executor, frozenset(s for s in kinds if kinds[s].metric is not Metric.NONE))

    def start(self) -> None:
        if self._stages:
            self._thread.start()

    def offer(self, frame: CapturedFrame, outcome: FrameOutcome) -> bool:
        """Offers a processed frame. True: it will be compared."""
        with self._changed:
            self._seen += 1
            now = self._clock()
            is_due = self._seen % EVERY_FRAMES == 1
            if not self._stages or not is_due or now < self._due_at or self._next or self._is_busy():
                return False
            self._due_at = now + EVERY_S
            self._next = Candidate(frame, outcome)
            self._changed.notify_all()
            return True

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._next is not None)
                if self._is_over:
                    return
                candidate = self._next
            assert candidate is not None
            self.sample(candidate)

    def sample(self, candidate: Candidate) -> None:
        """Compares a frame, logs failures, and determines when the next one is due."""
        began = self._clock()
        try:
            self.compare(candidate)
        except FrameFailed as error:
            logger.info("No golden frame: %s", error)
        except Exception:  # one frame's fault must not stop the measurement
            logger.exception("A golden frame has failed")
        with self._changed:
            pause_s = min(MOST_PAUSE_S, (self._clock() - began) / SHARE)
            self._due_at, self._next = max(self._due_at, began + pause_s), None

    def compare(self, candidate: Candidate) -> None:
        plan = golden_plan(self._executor, candidate.outcome.plan)
        size = fit_size(size_of(candidate.frame.picture), RESOLUTION)
        name = f"golden-{candidate.frame.n_loop}"
        places = {stage: plan.flow_mapping[stage] for stage in self._stages}
        self._executor.prepare(replace(plan, flow_mapping=places), candidate.outcome.plan, PREPARE_S)
        golden = self._executor.run(candidate.frame, plan, size, name=name, only=self._stages)
        ratio = ratio_of(candidate.outcome.size, size)
        for stage in self._stages:
            score = score_stage(self._executor.needs, stage, candidate.outcome.values, golden.values, ratio)
            if score is not None:
                self._compared(score[0], stage, score[1], candidate.outcome.plan.seq)


def golden_plan(executor: Executor, plan: Plan) -> Plan:
    """Returns a plan with the biggest models at full size, on a reachable cloud host or else the node's own. Raises
    FrameFailed."""
    host = golden_host(executor)
    if host is None:
        raise FrameFailed("golden", "there is no host", is_fault=False)
    place = StagePlace(0, Role.CLOUD, host.ip, host.node)
    conf = replace(plan.video_conf, encoder=Encoder.JPEG, resolution=RESOLUTION)
    return Plan(plan.seq, conf, dict.fromkeys(executor.needs.dag.stages, place), plan.policy)


def golden_host(executor: Executor) -> StageHost | None:
    router = executor.router
    away = router.away
    clouds = [host for host in router.hosts if host.role == Role.CLOUD and host.node not in away]
    return next(iter(clouds), router.own)


def closure(executor: Executor, stages: frozenset[str]) -> frozenset[str]:
    """Returns these stages and all that they depend on."""
    before: Mapping[str, frozenset[str]] = executor.needs.dag.before
    closed: set[str] = set()
    left = list(stages)
    while left:
        stage = left.pop()
        if stage not in closed:
            closed.add(stage)
            left += before[stage]
    return frozenset(closed)
