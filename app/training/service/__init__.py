"""The verbs of training: users' tasks, the scheduler that runs them on Ray, and their results."""

from __future__ import annotations

from dataclasses import dataclass

from app.training.errors import StacksUnavailable
from app.training.service.boards import TaskBoards
from app.training.service.checkpoints import Checkpoint
from app.training.service.cluster import ClusterPicture, ClusterView, Holder
from app.training.service.curves import CurveReader, TaskCurves
from app.training.service.dashboards import Dashboards, ProcessStack
from app.training.service.exports import Exports
from app.training.service.job_dashboard import JobDashboard
from app.training.service.options import TrainingOptions
from app.training.service.resubmission import Resubmission
from app.training.service.results import ConversionRequest, Results
from app.training.service.sweeps import SweepView, TaskSweeps
from app.training.service.task_log import LineFilter
from app.training.service.tasks import AttemptFolder, LogView, Tasks, TaskView


@dataclass(frozen=True)
class Training:
    """What the web asks. The scheduler is assembled where it runs."""

    options: TrainingOptions
    tasks: Tasks
    results: Results
    picture: ClusterPicture
    curves: CurveReader
    sweeps: TaskSweeps
    dashboards: Dashboards
    job_dashboard: JobDashboard
    boards: TaskBoards

    @property
    def resubmission(self) -> Resubmission:
        """Of a task once more."""
        return Resubmission(self.tasks, self.curves)

    def stacks(self, user: str, task_id: str, *, is_admin: bool = False) -> list[ProcessStack]:
        """Where the processes of a running task are. See `Dashboards.stacks`.

        Raises:
            TaskNotFound: This user has no such task.
        """
        task, attempt = self.tasks.latest(user, task_id, is_admin=is_admin)
        if attempt is None:
            raise StacksUnavailable("The task does not run.", hint="Only running processes have stacks.")
        return self.dashboards.stacks(task, attempt)

    @property
    def exports(self) -> Exports:
        """Of checkpoints, as models."""
        return Exports(self.tasks, self.resubmission)
