"""Does one stage of one job on this host: claim it, bring the inputs, run the toolchain in a child, keep the outputs.

It reports by a done message and never decides what comes next.
"""

from app.conversion.stages.heartbeat import Heartbeat
from app.conversion.stages.job_claimer import JobClaimer
from app.conversion.stages.reuse import StageReuse
from app.conversion.stages.runner import StageRunner, StageWorker

__all__ = ["Heartbeat", "JobClaimer", "StageReuse", "StageRunner", "StageWorker"]
