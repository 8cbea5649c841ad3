"""The product's actors with a BIE stage that burns a known time."""

from __future__ import annotations

import time

import actors
from app.conversion.model import JobRecord, Stage
from app.conversion.stages.heartbeat import RunningStage
from app.conversion.stages.runner import Outcome
from ops.benchmarks.load import BIE_S


def burn(record: JobRecord, running: RunningStage) -> Outcome:
    if record.stage is Stage.BIE:
        time.sleep(BIE_S)
    return Outcome("ok")


actors.parts.stages.work = burn  # type: ignore[method-assign]
