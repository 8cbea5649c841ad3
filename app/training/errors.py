"""Errors of tasks, and of the cluster that runs them."""

from __future__ import annotations

from app.kit.errors import BadInput, BadRequest, Conflict, ModelmillError, NotFound, TooMany, Unavailable


class TaskNotFound(NotFound):
    code = "TASK_NOT_FOUND"


class SweepNotFound(NotFound):
    code = "TASK_SWEEP_NOT_FOUND"


class TaskFinished(Conflict):
    """It has ended, and cannot be cancelled any more."""

    code = "TASK_FINISHED"


class TaskNotReleasable(Conflict):
    """It is not being cancelled, or not for long enough. detail: retry_after_s, if it will be."""

    code = "TASK_NOT_RELEASABLE"


class ProgramNotStored(Conflict):
    """The common folder does not take the program of the demonstration."""

    code = "TRAINING_PROGRAM_NOT_STORED"


class TaskNotFinished(Conflict):
    """It has not succeeded (yet): there is nothing to convert."""

    code = "TASK_NOT_FINISHED"


class BadSpec(BadInput):
    """detail: problems, a list of {at, problem}, as of every refused body."""

    code = "TASK_SPEC_INVALID"


class UnreadableSpec(BadRequest):
    """Neither YAML nor JSON, or not of the kind that is accepted."""

    code = "TASK_SPEC_UNREADABLE"


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
    """Ray does not answer, or not in time. Says nothing about the jobs it runs."""

    code = "RAY_UNREACHABLE"


class RayRefused(ModelmillError):
    """Ray answers, and will not take this job however often it is asked."""

    code = "RAY_REFUSED"
