"""kill -9 of a worker at the start, in the middle and at the end of each stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from app.conversion.model import Stage
from tests.harness.faults.deployment import Job
from tests.harness.faults.invariants import ONCE, assert_recovered
from tests.harness.faults.supervised_deployment import SupervisedDeployment
from tests.harness.until import until

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Moment:
    """hold: where the worker is held. is_there: has it come so far. reason: of the job's end; None if it passes."""

    name: str
    hold: str
    is_there: Callable[[SupervisedDeployment, Job, Stage], object]
    is_begun: bool
    reason: str | None


def _reached(name: str) -> Callable[[SupervisedDeployment, Job, Stage], object]:
    return lambda deployment, job, stage: deployment.reached(f"{name}.{stage.step}")


def _runs(deployment: SupervisedDeployment, job: Job, stage: Stage) -> object:
    return job.starts()[stage.step] and deployment.runs(job, stage)


MOMENTS = [
    Moment("it has taken the job", "after-take", _reached("after-take"), False, "worker lost"),
    Moment("the toolchain runs", "", _runs, True, "worker lost"),
    Moment("the outputs are uploaded", "before-report", _reached("before-report"), True, "worker lost"),
    Moment("it has sent done and has not heard so", "after-report", _reached("after-report"), True, None),
]


CORNER = Stage.BIE
"""All moments of the stage in the middle: every stage is run by the same code."""


@pytest.mark.parametrize(
    ("stage", "moment"),
    [
        pytest.param(
            stage,
            moment,
            id=f"{stage.step}, {moment.name}",
            marks=() if stage is CORNER else pytest.mark.exhaustive,
        )
        for stage in Stage
        for moment in MOMENTS
    ],
)
def test_a_worker_is_killed_when(supervised: SupervisedDeployment, stage: Stage, moment: Moment) -> None:
    """Each stage's master is killed once as well: where the toolchain runs."""
    plan = {} if moment.hold else {stage.step: "wait:gate"}
    point = f"{moment.hold}.{stage.step}"
    if moment.hold:
        supervised.hold(point)
    job = supervised.submit(**plan)
    until(lambda: moment.is_there(supervised, job, stage), what=moment.name)
    supervised.kill(f"{stage.step}-0", master=not moment.hold)
    if moment.hold:
        supervised.release(point)
    shown = assert_recovered(supervised, [job])[job.job_id]
    if moment.reason is None:
        assert shown["status"] == "COMPLETED"
        assert job.starts() == ONCE
    else:
        assert shown["error"]["reason"] == moment.reason
        assert shown["error"]["step"] == stage.step
        assert bool(job.starts()[stage.step]) is moment.is_begun
