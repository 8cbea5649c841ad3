"""The states of a task and what leads from one to another, and why a task waits or has failed. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.kit.text.json_values import JsonObject


class State(StrEnum):
    QUEUED = "QUEUED"
    """The scheduler has not checked yet whether there is room."""
    PENDING_RESOURCES = "PENDING_RESOURCES"
    SUBMITTING = "SUBMITTING"
    SUBMITTED = "SUBMITTED"
    RUNNING = "RUNNING"
    CANCELING = "CANCELING"
    """Ray was told to stop it, which takes seconds."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class Event(StrEnum):
    WAIT = "WAIT"
    """There is no room, or others are before it."""
    ADMIT = "ADMIT"
    ACCEPT = "ACCEPT"
    """Ray has accepted it."""
    START = "START"
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    RETRY = "RETRY"
    """The attempt failed for lack of resources, or with its machine: the task is queued again."""
    CANCEL = "CANCEL"
    STOPPED = "STOPPED"
    """The task to cancel has stopped."""
    RELEASE = "RELEASE"
    """The task to cancel is no longer waited for: Ray has not confirmed that it stopped."""


def _build_transitions() -> dict[tuple[State, Event], State]:
    table = {}
    for waiting in (State.QUEUED, State.PENDING_RESOURCES):
        table[waiting, Event.WAIT] = State.PENDING_RESOURCES
        table[waiting, Event.ADMIT] = State.SUBMITTING
        table[waiting, Event.CANCEL] = State.CANCELED
    for held in (State.SUBMITTING, State.SUBMITTED, State.RUNNING):
        table[held, Event.FAIL] = State.FAILED
        table[held, Event.RETRY] = State.PENDING_RESOURCES
        table[held, Event.CANCEL] = State.CANCELING
    table[State.SUBMITTING, Event.ACCEPT] = State.SUBMITTED
    table[State.SUBMITTED, Event.START] = State.RUNNING
    for held in (State.SUBMITTED, State.RUNNING, State.CANCELING):
        table[held, Event.SUCCEED] = State.SUCCEEDED
    for end in (Event.STOPPED, Event.RELEASE):
        table[State.CANCELING, end] = State.CANCELED
    return table


TRANSITIONS = _build_transitions()
"""Other transitions are refused. A job that ended well before its stop reached it has succeeded."""

TERMINAL = frozenset(State) - {state for state, _ in TRANSITIONS}
WAITING = frozenset({State.QUEUED, State.PENDING_RESOURCES})
ACTIVE = frozenset(State) - TERMINAL - WAITING
"""Ray has the task, or may have it: it holds resources."""


class FailureKind(StrEnum):
    """Why an attempt ended without success."""

    INSUFFICIENT_RESOURCES = "INSUFFICIENT_RESOURCES"
    USER_ERROR = "USER_ERROR"
    """Configuration, paths, missing modules: a repetition will fail again."""
    RUNTIME_ERROR = "RUNTIME_ERROR"
    """An exception in the program."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    INFRA_ERROR = "INFRA_ERROR"
    """The machine or Ray's own processes died."""
    LOST = "LOST"
    """Ray does not know the job any more: its head lost its memory."""
    TIME_LIMIT = "TIME_LIMIT"
    """It reached its time limit."""
    IDLE_LIMIT = "IDLE_LIMIT"
    """It wrote nothing until its idle limit: it most likely hangs."""
    PREEMPTED = "PREEMPTED"
    """It made room for a more urgent task, and continues later."""
    CANCELED = "CANCELED"
    UNKNOWN = "UNKNOWN"


class WaitingCode(StrEnum):
    """Why a task waits. Each with its values: see WaitingReason."""

    GPUS = "GPUS"
    """free, needed; of these three, if it is known when it starts at the latest: starts_by; after_user: whose task must
    end for it; after_task: which one, where it is of the same user"""
    WHOLE_NODES = "WHOLE_NODES"
    """free, needed, nodes, per_node: enough in all, but not together. never: true if no nodes of this cluster can"""
    CPUS = "CPUS"
    """free, needed; per_node: if there are enough, but not together; never"""
    TOO_BIG = "TOO_BIG"
    """total, needed, of ("GPU" or "CPU"): more than the cluster has"""
    RESOURCES = "RESOURCES"
    """names: custom resources of which there are too few beside free GPUs and CPUs; never: no node has so many"""
    BEHIND = "BEHIND"
    """ahead: how many tasks come first"""
    RETRY = "RETRY"
    """at: when it is tried again; kind: of the failure, if that is known"""
    MOST_RUNNING = "MOST_RUNNING"
    """most: how many tasks may run at once"""
    USER_LIMIT = "USER_LIMIT"
    """held, most: GPUs of its user; others go ahead"""
    ENVIRONMENT_LIMIT = "ENVIRONMENT_LIMIT"
    """environment, held, most: GPUs of all its tasks; others go ahead"""
    DISABLED = "DISABLED"
    """Its user is disabled: it keeps its place, and others go ahead"""
    RAY = "RAY"
    """since: Ray does not answer"""


@dataclass(frozen=True)
class WaitingReason:
    """Why a task waits."""

    code: WaitingCode
    """The reason."""
    facts: JsonObject = field(default_factory=dict)
    """The values of the reason, by the names that WaitingCode lists for it."""
