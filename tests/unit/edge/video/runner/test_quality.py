"""When golden frames are compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from app.edge.video.runner.executor import Executor
from app.edge.video.runner.frame_context import CapturedFrame, FrameFailed, FrameOutcome, needs_of
from app.edge.video.runner.quality import EVERY_FRAMES, EVERY_S, MOST_PAUSE_S, Candidate, ReferenceSampler
from app.edge.video.stages.registry import kinds
from app.video.model.dag import read_dag
from app.video.model.job import StageHost
from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from tests.harness.video.dags import REQUIREMENT

HERE = StageHost("edge-1", "host", "10.0.0.1", "http://10.0.0.1:1", "s")
PLACE = StagePlace(0, Role.HOST, HERE.ip, HERE.node)
PLAN = Plan(1, VideoConf("480p", 24.0), {"face_detection": PLACE, "face_alignment": PLACE})


class SlowExecutor:
    """Stands in for the executor: golden frames take so many seconds of its clock, and fail."""

    def __init__(self, takes_s: float) -> None:
        dag = read_dag(REQUIREMENT)
        self.needs = needs_of(dag, {stage: kinds()[stage] for stage in dag.stages})
        self.router = SimpleNamespace(hosts=[HERE], away=frozenset(), own=HERE)
        self.now, self._takes_s = 100.0, takes_s

    def prepare(self, *_: Any) -> None: ...

    def run(self, *_: Any, **__: Any) -> FrameOutcome:
        self.now += self._takes_s
        raise FrameFailed("face_detection", "the link is too slow")


@pytest.mark.parametrize(("takes_s", "pause_s"), [(0.05, EVERY_S), (0.4, 20.0), (3.0, MOST_PAUSE_S)])
def test_golden_frames_that_take_long_come_seldom(takes_s: float, pause_s: float) -> None:
    executor = SlowExecutor(takes_s)
    sampler = ReferenceSampler(cast(Executor, executor), lambda *_: None, lambda: False, lambda: executor.now)
    frame = CapturedFrame(0, np.zeros((8, 8, 3), np.uint8), None, executor.now)
    outcome = FrameOutcome(PLAN, (8, 8), {}, {})

    def is_taken() -> bool:
        return [sampler.offer(frame, outcome) for _ in range(EVERY_FRAMES)].count(True) == 1

    began = executor.now
    assert is_taken()
    sampler.sample(Candidate(frame, outcome))
    executor.now = began + pause_s - 0.1
    assert not is_taken()
    executor.now = began + pause_s + 0.1
    assert is_taken()
