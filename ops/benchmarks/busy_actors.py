"""The product's actors with stages that take a known time: by waiting, or by burning CPU.

A job's name says how many seconds its stages take, "0.1 0.4 0.1"; otherwise BIE takes BIE_S. MODELMILL_BENCH_BURN=1 has
them burn. Then a stage that is preempted takes the longer: it is the thread's CPU time that counts.
"""

from __future__ import annotations

import os
import time

import actors
from app.conversion.model import JobRecord, Stage
from app.conversion.stages.heartbeat import RunningStage
from app.conversion.stages.runner import StageOutcome
from ops.benchmarks.load import BIE_S, burn

IS_BURNING = bool(os.environ.get("MODELMILL_BENCH_BURN"))


def work(record: JobRecord, running: RunningStage) -> StageOutcome:
    seconds = _seconds(record)
    if IS_BURNING:
        burn(seconds)
    else:
        time.sleep(seconds)
    return StageOutcome("ok")


def _seconds(record: JobRecord) -> float:
    if record.name:
        return float(record.name.split()[record.stage.place])
    return BIE_S if record.stage is Stage.BIE else 0.0


actors.container.stages.work = work  # type: ignore[method-assign]
