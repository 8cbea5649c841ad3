"""What training is about: tasks, attempts, events; demands and the cluster that is to meet them. Pure."""

from app.training.model.demand import Claim, Demand, Held, Node
from app.training.model.task import (
    ACTIVE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Attempt,
    Conversion,
    Event,
    FailureKind,
    Rollout,
    State,
    Task,
    TaskEvent,
    Waiting,
    WaitingCode,
    Workload,
    submission_id,
)

__all__ = [
    "ACTIVE",
    "TERMINAL",
    "TRANSITIONS",
    "WAITING",
    "Attempt",
    "Claim",
    "Conversion",
    "Demand",
    "Event",
    "FailureKind",
    "Held",
    "Node",
    "Rollout",
    "State",
    "Task",
    "TaskEvent",
    "Waiting",
    "WaitingCode",
    "Workload",
    "submission_id",
]
