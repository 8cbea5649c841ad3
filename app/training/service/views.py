"""The user's view of a task: values, created by the operations beside this module. The reason why a task waits is one
English sentence for programs, terminals and logs; pages translate it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.kit.text.json_values import JsonObject
from app.training.model import Attempt, Conversion, FailureKind, State, Task, WaitingCode, WaitingReason
from app.training.model.capacity import ACCELERATOR


@dataclass(frozen=True)
class AttemptFolder:
    """The folder of an attempt, or of a task."""

    path: str
    """As in tasks; "" once it is deleted."""
    is_trashed: bool
    trash_at: datetime | None
    """None until it has ended."""
    purge_at: datetime | None
    """None until it has ended."""


@dataclass(frozen=True)
class TaskView:
    """A task with all that its page shows."""

    task: Task
    attempts: Sequence[Attempt] = ()
    """Oldest first; in lists only the last one."""
    ahead: int | None = None
    """How many wait before it; None if it does not wait."""
    folders: Mapping[int, AttemptFolder] = field(default_factory=dict)
    """By attempt number."""
    artifacts: Sequence[str] = ()
    """ONNX models that the last attempt left, as paths in its folder."""
    conversions: Sequence[Conversion] = ()
    checkpoints: AttemptFolder | None = None
    """The folder that all attempts share; None if it has none yet."""

    @property
    def may_still_run(self) -> bool:
        """It was released, and Ray has not confirmed since then that its program ended."""
        return self.task.state is State.CANCELED and bool(self.attempts) and self.attempts[-1].ended_at is None

    @property
    def waiting(self) -> WaitingReason | None:
        """Why it waits, with the number of tasks ahead, which changes with every task that leaves and is not stored."""
        waiting = self.task.waiting
        if waiting is None or waiting.code is not WaitingCode.BEHIND:
            return waiting
        return WaitingReason(waiting.code, {**waiting.facts, "ahead": self.ahead or 0})

    @property
    def waiting_reason(self) -> str:
        """As a sentence; empty if it does not wait."""
        if not self.task.is_waiting:
            return ""
        return in_words(self.waiting) if self.waiting else "waiting: the scheduler has not looked at it yet"


@dataclass(frozen=True)
class LogView:
    """The last copied lines of an attempt's log."""

    attempt: Attempt
    data: bytes
    lines: int
    """How many lines the data has."""
    is_whole: bool
    """The data is all of the log."""
    size_bytes: int
    """Of the whole copy."""
    processes: Sequence[str] = ()
    """The processes that wrote into it, as far as it was read."""
    is_cut: bool = False
    """Its start, or a part of it, was dropped because it was too long."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


_CAUSES = {
    FailureKind.INSUFFICIENT_RESOURCES.value: "it failed for lack of resources",
    FailureKind.INFRA_ERROR.value: "its machine, or a process of Ray, died",
    FailureKind.PREEMPTED.value: "it gave way to a more urgent task",
    FailureKind.LOST.value: "Ray's head was started anew and has forgotten it",
}


def in_words(waiting: WaitingReason) -> str:
    starts_by = waiting.facts.get("starts_by")
    promise = (
        f"; it starts by {starts_by} at the latest, when {_explain_awaited(waiting.facts)} ends" if starts_by else ""
    )
    giving = waiting.facts.get("giving_way")
    room = f"; {_count(waiting.facts, 'giving_way', 'less urgent task')} {'gives' if giving == 1 else 'give'} way"
    cluster = waiting.facts.get("cluster")
    where = f" (on {cluster})" if cluster else ""
    return f"waiting: {_SAYING[waiting.code](waiting.facts)}{where}{promise}{room if giving else ''}"


def _explain_awaited(facts: JsonObject) -> str:
    """The task whose end it waits for."""
    return facts.get("after_task") or f"a task of {facts.get('after_user') or 'another user'}"


def _explain_gpus(facts: JsonObject) -> str:
    return f"{_count(facts, 'free', 'GPU')} free, {_format_number(facts, 'needed')} needed"


def _explain_whole_nodes(facts: JsonObject) -> str:
    where = "on one node" if facts.get("nodes") == 1 else f"on each of {_count(facts, 'nodes', 'node')}"
    free, needed = _count(facts, "free", "GPU"), _format_number(facts, "needed")
    return f"{free} free, {needed} needed: {_format_number(facts, 'per_node')} together {where}{_explain_never(facts)}"


def _explain_cpus(facts: JsonObject) -> str:
    together = f": {_format_number(facts, 'per_node')} together on one node" if "per_node" in facts else ""
    needed = _format_number(facts, "needed")
    return f"{_count(facts, 'free', 'CPU')} free, {needed} needed{together}{_explain_never(facts)}"


def _explain_resources(facts: JsonObject) -> str:
    names = ", ".join(str(name).removeprefix(ACCELERATOR) for name in facts.get("names", ()))
    return f"no node has {names} free beside its GPUs and CPUs{_explain_never(facts)}"


def _explain_too_big(facts: JsonObject) -> str:
    of = str(facts.get("of", "GPU"))
    return (
        f"{_format_number(facts, 'needed')} {of}s needed, the whole cluster has {_format_number(facts, 'total')}: "
        "cancel it, or add nodes"
    )


def _explain_behind(facts: JsonObject) -> str:
    return f"{_count(facts, 'ahead', 'task')} {'comes' if facts.get('ahead') == 1 else 'come'} first"


def _retry(facts: JsonObject) -> str:
    cause = _CAUSES.get(facts.get("kind", ""), "its last attempt failed")
    return f"{cause}, and it is tried again at {facts.get('at', '?')}"


def _explain_most_running(facts: JsonObject) -> str:
    return f"only {_count(facts, 'most', 'task')} may run at once"


def _explain_user_limit(facts: JsonObject) -> str:
    return f"its user holds {_count(facts, 'held', 'GPU')} and may hold {_format_number(facts, 'most')}"


def _explain_environment_limit(facts: JsonObject) -> str:
    held, most = _count(facts, "held", "GPU"), _format_number(facts, "most")
    return f"tasks of the environment {facts.get('environment', '?')} hold {held} and may hold {most}"


def _explain_disabled(_: JsonObject) -> str:
    return "its user is disabled"


def _explain_ray(facts: JsonObject) -> str:
    return f"Ray has not answered since {facts.get('since', '?')}"


_SAYING: dict[WaitingCode, Callable[[JsonObject], str]] = {
    WaitingCode.GPUS: _explain_gpus,
    WaitingCode.WHOLE_NODES: _explain_whole_nodes,
    WaitingCode.CPUS: _explain_cpus,
    WaitingCode.TOO_BIG: _explain_too_big,
    WaitingCode.RESOURCES: _explain_resources,
    WaitingCode.BEHIND: _explain_behind,
    WaitingCode.RETRY: _retry,
    WaitingCode.MOST_RUNNING: _explain_most_running,
    WaitingCode.USER_LIMIT: _explain_user_limit,
    WaitingCode.ENVIRONMENT_LIMIT: _explain_environment_limit,
    WaitingCode.DISABLED: _explain_disabled,
    WaitingCode.RAY: _explain_ray,
}


def _explain_never(facts: JsonObject) -> str:
    return "; no nodes of this cluster can give that: cancel it, or add nodes" if facts.get("never") else ""


def _count(facts: JsonObject, name: str, noun: str) -> str:
    return f"{_format_number(facts, name)} {noun}" if facts.get(name) == 1 else f"{_format_number(facts, name)} {noun}s"


def _format_number(facts: JsonObject, name: str) -> str:
    number = facts.get(name, "?")
    return f"{number:g}" if isinstance(number, float) else str(number)
