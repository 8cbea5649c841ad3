"""Golden frames: now and then one is also looked at with the biggest models at its full size, so that it is known how
good the plan in force is, without anybody's truth."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import FrameFailed, Outcome
from app.edge.video.runner.generator import Taken
from app.edge.video.runner.resize import fitted, ratio_of, size_of
from app.edge.video.runner.score import scored
from app.video.model.job import StageHost
from app.video.model.kinds import Metric
from app.video.model.plan import Encoder, Plan, Role, StagePlace

EVERY_FRAMES = 50
EVERY_S = 5.0
RESOLUTION = "1080p"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    frame: Taken
    outcome: Outcome


class ReferenceSampler:
    """The first frame, and each EVERY_FRAMES-th after it. compared: told of each comparison: metric, stage,
    value, seq of the plan. is_busy: do so many frames wait that this had better not?"""

    def __init__(
        self,
        executor: Executor,
        compared: Callable[[Metric, str, float, int], None],
        is_busy: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executor, self._compared, self._is_busy, self._clock = executor, compared, is_busy, clock
        self._seen = 0
        self._at = -EVERY_S
        self._next: Candidate | None = None
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="golden", daemon=True)
        kinds = executor.needs.kinds
        self._stages = closure(executor, frozenset(s for s in kinds if kinds[s].metric is not Metric.NONE))

    def start(self) -> None:
        if self._stages:
            self._thread.start()

    def offer(self, frame: Taken, outcome: Outcome) -> bool:
        """A frame that has been processed. True: it is looked at once more."""
        with self._changed:
            self._seen += 1
            now = self._clock()
            is_due = self._seen % EVERY_FRAMES == 1
            if not self._stages or not is_due or now - self._at < EVERY_S or self._next or self._is_busy():
                return False
            self._at = now
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
            try:
                self.compare(candidate)
            except FrameFailed as error:
                logger.info("No golden frame: %s", error)
            except Exception:
                logger.exception("A golden frame has failed")
            with self._changed:
                self._next = None

    def compare(self, candidate: Candidate) -> None:
        """Raises FrameFailed."""
        plan = golden_plan(self._executor, candidate.outcome.plan)
        size = fitted(size_of(candidate.frame.picture), RESOLUTION)
        name = f"golden-{candidate.frame.n_loop}"
        golden = self._executor.run(candidate.frame, plan, size, name=name, only=self._stages)
        ratio = ratio_of(candidate.outcome.size, size)
        for stage in self._stages:
            found = scored(self._executor.needs, stage, candidate.outcome.values, golden.values, ratio)
            if found is not None:
                self._compared(found[0], stage, found[1], candidate.outcome.plan.seq)


def golden_plan(executor: Executor, plan: Plan) -> Plan:
    """On a cloud host that is there, else on the node's own."""
    host = golden_host(executor)
    if host is None:
        raise FrameFailed("golden", "there is no host", is_fault=False)
    place = StagePlace(0, Role.CLOUD, host.ip, host.node)
    conf = replace(plan.video_conf, encoder=Encoder.JPEG, resolution=RESOLUTION)
    return Plan(plan.seq, conf, dict.fromkeys(executor.needs.dag.stages, place), plan.policy)


def golden_host(executor: Executor) -> StageHost | None:
    routes = executor.routes
    away = routes.away
    clouds = [host for host in routes.hosts if host.role == Role.CLOUD and host.node not in away]
    return next(iter(clouds), routes.own)


def closure(executor: Executor, stages: frozenset[str]) -> frozenset[str]:
    """These, and all that they wait for."""
    before: Mapping[str, frozenset[str]] = executor.needs.dag.before
    found: set[str] = set()
    left = list(stages)
    while left:
        stage = left.pop()
        if stage not in found:
            found.add(stage)
            left += before[stage]
    return frozenset(found)
