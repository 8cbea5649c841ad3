"""The model of training: tasks, attempts, events; demands and the cluster that satisfies them. Pure."""

from app.training.model.capacity import Node
from app.training.model.demand import Claim, Demand, Held
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
