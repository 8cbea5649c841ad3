"""The model of training: tasks, attempts, events; demands and the cluster that satisfies them. Pure."""

from app.training.model.capacity import Claim, Demand, Held, Node
from app.training.model.state import (
    ACTIVE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Event,
    FailureKind,
    State,
    WaitingCode,
    WaitingReason,
)
from app.training.model.task import (
    RELEASE_AFTER,
    Algorithm,
    Attempt,
    Conversion,
    NewTask,
    Priority,
    Rollout,
    Task,
    TaskEvent,
    Workload,
    submission_id,
)
