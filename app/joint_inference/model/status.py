"""Conditions: at most one of each type, the current one last; times change only with their condition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from app.kit.text.json_values import JsonObject


class ConditionType(StrEnum):
    """The requirement's three, of which one is the current state, and warnings beside it."""

    PENDING = "Pending"
    RUNNING = "Running"
    FAILED = "Failed"
    WARNING = "Warning"


class Reason(StrEnum):
    """Why a service is in its state."""

    ACCEPTED = "Accepted"
    """Pending: nothing has been looked at yet."""
    NODE_OFFLINE = "NodeOffline"
    """Pending, where the edge worker is; Running, where the cloud worker is and the edge worker has not missed it."""
    CLOUD_STARTING = "CloudWorkerStarting"
    EDGE_STARTING = "EdgeWorkerStarting"
    RESTARTING = "WorkerRestarting"
    SERVING = "Serving"
    DEGRADED = "Degraded"
    """Running: the edge answers, but it has problems: see ProblemKind."""
    MODEL_NOT_FOUND = "ModelNotFound"
    NODE_NOT_FOUND = "NodeNotFound"
    ALGORITHM_NOT_FOUND = "AlgorithmNotFound"
    BAD_PARAMETERS = "BadParameters"
    """A parameter of the algorithm or of a bundled worker is none."""
    MODELS_DIFFER = "ModelsDiffer"
    """Failed: a detector and a classifier, or classifiers of other classes."""
    DATASET_NOT_FOUND = "DatasetNotFound"
    ROLLOUT_STALLED = "RolloutStalled"
    """Pending: a worker cannot be changed to what is wanted, and goes on as it was before."""
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    """Failed: the edge worker's stream cannot be opened, or broke off. It is tried again and again."""
    DECODER_MISSING = "DecoderMissing"
    """Failed: the edge node has no library to read its source with."""
    SOURCE_ENDED = "SourceEnded"
    """Running: the source has been read to its end; the worker answers what it is sent."""
    ROLLING_OUT = "RollingOut"
    """Running: a new model is on its way over the nodes."""
    ROLLED_BACK = "RolledBack"
    """Running: the former model, for the new one was not well, or was taken back."""
    WORKER_FAILED = "WorkerFailed"
    NEVER_HARD = "NeverHard"
    """Warning: with these thresholds no sample can be hard."""
    DRIFT = "Drift"
    """Warning: scores or classes are far from the reference."""
    TERMINATING = "Terminating"


_UNDER_WAY = (Reason.SERVING, Reason.CLOUD_STARTING, Reason.EDGE_STARTING)


class ProblemKind(StrEnum):
    """What does not work of a service. Its user is alerted of each."""

    CLOUD = "cloud"
    """Its worker has failed, or the edge worker asks it in vain."""
    SOURCE = "source"
    """One of several has no frames."""
    REPORTS = "reports"
    """The node cannot store results, or the web server does not take them."""
    BROADCAST = "broadcast"
    SINK = "sink"
    MODEL = "model"
    """A worker cannot change to the newest version, or its model is no longer there."""
    NODES = "nodes"
    """Edge nodes do not serve, of several."""


@dataclass(frozen=True)
class Condition:
    type: ConditionType
    reason: str
    message: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)
    """What does not work, beside a reason other than Degraded: sentences for its user, by ProblemKind."""

    @staticmethod
    def degraded(problem: ProblemKind, trouble: str) -> Condition:
        return Condition(ConditionType.RUNNING, Reason.DEGRADED, trouble, {problem.value: trouble})

    @property
    def gravity(self) -> tuple[int, bool, bool]:
        """Sorts conditions, the gravest first."""
        types = (ConditionType.FAILED, ConditionType.PENDING, ConditionType.RUNNING)
        return types.index(self.type), self.reason != Reason.DEGRADED, self.reason in _UNDER_WAY


def combine(conditions: Iterable[Condition]) -> Condition:
    """Returns the gravest condition with the messages and problems of all others that are more than under way.

    Args:
        conditions: at least one.
    """
    first, *others = sorted(conditions, key=lambda condition: condition.gravity)
    told = [first, *(condition for condition in others if condition.reason not in _UNDER_WAY)]
    problems = dict[str, str]()
    for condition in told:
        for problem, trouble in condition.problems.items():
            problems[problem] = f"{problems[problem]}\n{trouble}" if problem in problems else trouble
    return replace(first, message="\n".join(condition.message for condition in told), problems=problems)


def conditions_after(
    before: Sequence[Mapping[str, Any]], current: Condition, warning: Condition | None, now: str
) -> list[JsonObject]:
    """The list of conditions again: a warning, the states that were (False), the one that is (True) last.
    lastTransitionTime moves when status or reason of an entry does; lastHeartbeatTime with every call.

    Args:
        warning: None: the one that stood there goes.
        now: text in ISO 8601.
    """
    known = {str(entry["type"]): entry for entry in before}
    conditions: dict[str, tuple[str, str, str]] = {}
    for kind in (ConditionType.PENDING, ConditionType.RUNNING, ConditionType.FAILED):
        if kind.value in known and kind is not current.type:
            conditions[kind.value] = ("False", str(known[kind.value].get("reason", "")), "")
    if warning is not None:
        conditions[ConditionType.WARNING.value] = ("True", warning.reason, warning.message)
    conditions[current.type.value] = ("True", current.reason, current.message)
    return [_make_entry(known.get(kind), kind, *rest, now=now) for kind, rest in conditions.items()]


def _make_entry(
    known: Mapping[str, Any] | None, kind: str, status: str, reason: str, message: str, *, now: str
) -> JsonObject:
    is_same = known is not None and (known["status"], known.get("reason")) == (status, reason)
    since = known["lastTransitionTime"] if known is not None and is_same else now
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def complete_status(status: Mapping[str, Any], now: str) -> JsonObject:
    """A status that somebody else wrote, in which nothing is missing that ours have; conditions of no type of ours are
    omitted, as they are at each look."""
    blank = {"status": "Unknown", "lastHeartbeatTime": now, "lastTransitionTime": now, "reason": "", "message": ""}
    whole = dict(status)
    if "conditions" in status:
        known = [entry for entry in status["conditions"] if entry.get("type") in list(ConditionType)]
        whole["conditions"] = [{**blank, **entry, "reason": str(entry.get("reason", ""))[:64]} for entry in known]
    if "metrics" in status:
        whole["metrics"] = [{"key": "", "value": "", **metric} for metric in status["metrics"]]
    return whole


def current_of(status: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The requirement's conditions[-1]."""
    conditions = status.get("conditions") or ()
    return conditions[-1] if conditions else None


def metrics_of(task_info: Mapping[str, Any]) -> list[dict[str, str]]:
    """taskInfo as the status has it: names and texts. Times are the status's own."""
    left_out = {"startTime", "updateTime", "currentTime"}
    return [
        {"key": key, "value": _to_text(value)}
        for key, value in task_info.items()
        if key not in left_out and value is not None
    ]


def _to_text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
