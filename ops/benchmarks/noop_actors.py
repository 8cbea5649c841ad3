"""The product's actors with stages that do nothing: what is left is the orchestration."""

from __future__ import annotations

import actors
from app.conversion.model import JobRecord
from app.conversion.stages.heartbeat import RunningStage
from app.conversion.stages.runner import StageOutcome


def nothing(record: JobRecord, running: RunningStage) -> StageOutcome:
    return StageOutcome("ok")


actors.container.stages.work = nothing  # type: ignore[method-assign]
