"""Errors of tasks, and of the cluster that runs them."""

from __future__ import annotations

from app.kit.errors import BadInput, BadRequest, Conflict, ModelmillError, NotFound, TooMany, Unavailable


class TaskNotFound(NotFound, code="TASK_NOT_FOUND"): ...


class SweepNotFound(NotFound, code="TASK_SWEEP_NOT_FOUND"): ...


class EnvironmentNotFound(NotFound, code="TASK_ENVIRONMENT_NOT_FOUND"): ...


class EnvironmentInUse(Conflict, code="TASK_ENVIRONMENT_IN_USE"):
    """Tasks of it have not ended."""


class SecretUnusable(Conflict, code="TASK_SECRET_UNUSABLE"):
    """A secret that an environment names cannot be read, or is no secret."""


class TaskFinished(Conflict, code="TASK_FINISHED"):
    """It has ended and can no longer be cancelled."""


class TaskNotReleasable(Conflict, code="TASK_NOT_RELEASABLE"):
    """It is not being cancelled, or not for long enough. detail: retry_after_s, if applicable."""


class ProgramNotStored(Conflict, code="TRAINING_PROGRAM_NOT_STORED"):
    """A bundled program could not be written to the common folder."""


class TaskNotFinished(Conflict, code="TASK_NOT_FINISHED"):
    """It has not succeeded (yet): there is nothing to convert."""


class BadSpec(BadInput, code="TASK_SPEC_INVALID"):
    """detail: problems, a list of {at, problem}, as for every refused body."""


class UnreadableSpec(BadRequest, code="TASK_SPEC_UNREADABLE"):
    """Neither YAML nor JSON, or an unsupported part of them."""


class StacksUnavailable(Conflict, code="TASK_STACKS_UNAVAILABLE"):
    """Ray cannot tell where the processes of a task are."""


class DashboardMissing(NotFound, code="TASK_DASHBOARD_MISSING"):
    """Ray does not have it, or it is no part of what its dashboard shows of one job."""


class BoardsTooMany(TooMany, code="TENSORBOARDS_TOO_MANY"):
    """As many TensorBoards run as may."""


class BoardMissing(NotFound, code="TENSORBOARD_FILES_MISSING"):
    """The task has no event files (yet, or any more)."""


class BoardUnavailable(Unavailable, code="TENSORBOARD_UNAVAILABLE", can_retry=False):
    """TensorBoard is not installed, is turned off, or does not run."""


class TooManyTasks(TooMany, code="TASKS_TOO_MANY"): ...


class TrainingOff(Unavailable, code="TRAINING_OFF", can_retry=False):
    """This installation has no Ray cluster."""


class LogMissing(NotFound, code="LOG_NOT_FOUND"):
    """There is no log (yet), or its folder was deleted."""


class RayUnreachable(Unavailable, code="RAY_UNREACHABLE"):
    """Ray does not answer, or not in time. The state of its jobs is unknown."""


class RayRefused(ModelmillError, code="RAY_REFUSED"):
    """Ray answers, and refuses this job permanently."""
