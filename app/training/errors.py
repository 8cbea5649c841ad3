"""Errors of tasks, and of the cluster that runs them."""

from __future__ import annotations

from app.kit.errors import BadInput, BadRequest, Conflict, ModelmillError, NotFound, TooMany, Unavailable


class TaskNotFound(NotFound):
    code = "TASK_NOT_FOUND"


class SweepNotFound(NotFound):
    code = "TASK_SWEEP_NOT_FOUND"


class EnvironmentNotFound(NotFound):
    code = "TASK_ENVIRONMENT_NOT_FOUND"


class EnvironmentInUse(Conflict):
    """Tasks of it have not ended."""

    code = "TASK_ENVIRONMENT_IN_USE"


class SecretUnusable(Conflict):
    """A secret that an environment names cannot be read, or is no secret."""

    code = "TASK_SECRET_UNUSABLE"


class TaskFinished(Conflict):
    """It has ended and can no longer be cancelled."""

    code = "TASK_FINISHED"


class TaskNotReleasable(Conflict):
    """It is not being cancelled, or not for long enough. detail: retry_after_s, if applicable."""

    code = "TASK_NOT_RELEASABLE"


class ProgramNotStored(Conflict):
    """The program of the demonstration could not be written to the common folder."""

    code = "TRAINING_PROGRAM_NOT_STORED"


class TaskNotFinished(Conflict):
    """It has not succeeded (yet): there is nothing to convert."""

    code = "TASK_NOT_FINISHED"


class BadSpec(BadInput):
    """detail: problems, a list of {at, problem}, as for every refused body."""

    code = "TASK_SPEC_INVALID"


class UnreadableSpec(BadRequest):
    """Neither YAML nor JSON, or an unsupported part of them."""

    code = "TASK_SPEC_UNREADABLE"


class StacksUnavailable(Conflict):
    """Ray cannot tell where the processes of a task are."""

    code = "TASK_STACKS_UNAVAILABLE"


class DashboardMissing(NotFound):
    """Ray does not have it, or it is no part of what its dashboard shows of one job."""

    code = "TASK_DASHBOARD_MISSING"


class BoardsTooMany(TooMany):
    """As many TensorBoards run as may."""

    code = "TENSORBOARDS_TOO_MANY"


class BoardMissing(NotFound):
    """The task has no event files (yet, or any more)."""

    code = "TENSORBOARD_FILES_MISSING"


class BoardUnavailable(Unavailable):
    """TensorBoard is not installed, is turned off, or does not run."""

    code = "TENSORBOARD_UNAVAILABLE"
    can_retry = False


class TooManyTasks(TooMany):
    code = "TASKS_TOO_MANY"


class TrainingOff(Unavailable):
    """This installation has no Ray cluster."""

    code = "TRAINING_OFF"
    can_retry = False


class LogMissing(NotFound):
    """There is no log (yet), or its folder was deleted."""

    code = "LOG_NOT_FOUND"


class RayUnreachable(Unavailable):
    """Ray does not answer, or not in time. The state of its jobs is unknown."""

    code = "RAY_UNREACHABLE"


class RayRefused(ModelmillError):
    """Ray answers, and refuses this job permanently."""

    code = "RAY_REFUSED"
