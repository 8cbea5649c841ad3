"""The model of training: tasks, attempts, events; demands and the cluster that satisfies them. Pure."""

from app.training.model.capacity import Claim, Demand, Held, Node
from app.training.model.task import (
    ACTIVE,
    RELEASE_AFTER,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Algorithm,
    Attempt,
    Conversion,
    Event,
    FailureKind,
    NewTask,
    Priority,
    Rollout,
    State,
    Task,
    TaskEvent,
    WaitingCode,
    WaitingReason,
    Workload,
    submission_id,
)
