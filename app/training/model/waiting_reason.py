"""Why a task waits, as one English sentence: for programs, terminals and logs. Pages say it in their reader's language.

The facts of each code are listed at WaitingCode. A record of another version may lack some: nothing here fails then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.training.model.task import FailureKind, Waiting, WaitingCode

Facts = dict[str, Any]
_CAUSES = {
    FailureKind.INSUFFICIENT_RESOURCES.value: "it failed for lack of resources",
    FailureKind.INFRA_ERROR.value: "its machine, or a process of Ray, died",
    FailureKind.LOST.value: "Ray's head was started anew and has forgotten it",
}


def in_words(waiting: Waiting) -> str:
    starts_by = waiting.facts.get("starts_by")
    promise = f"; it starts by {starts_by} at the latest" if starts_by else ""
    return f"waiting: {_SAYING[waiting.code](waiting.facts)}{promise}"


def _gpus(facts: Facts) -> str:
    return f"{_count(facts, 'free', 'GPU')} free, {_number(facts, 'needed')} needed"


def _whole_nodes(facts: Facts) -> str:
    where = "on one node" if facts.get("nodes") == 1 else f"on each of {_count(facts, 'nodes', 'node')}"
    free, needed = _count(facts, "free", "GPU"), _number(facts, "needed")
    return f"{free} free, {needed} needed: {_number(facts, 'per_node')} together {where}{_never(facts)}"


def _cpus(facts: Facts) -> str:
    together = f": {_number(facts, 'per_node')} together on one node" if "per_node" in facts else ""
    return f"{_count(facts, 'free', 'CPU')} free, {_number(facts, 'needed')} needed{together}{_never(facts)}"


def _too_big(facts: Facts) -> str:
    of = str(facts.get("of", "GPU"))
    return (
        f"{_number(facts, 'needed')} {of}s needed, the whole cluster has {_number(facts, 'total')}: "
        "cancel it, or add nodes"
    )


def _behind(facts: Facts) -> str:
    return f"{_count(facts, 'ahead', 'task')} {'comes' if facts.get('ahead') == 1 else 'come'} first"


def _retry(facts: Facts) -> str:
    cause = _CAUSES.get(facts.get("kind", ""), "its last attempt failed")
    return f"{cause}, and it is tried again at {facts.get('at', '?')}"


def _most_running(facts: Facts) -> str:
    return f"only {_count(facts, 'most', 'task')} may run at once"


def _user_limit(facts: Facts) -> str:
    return f"its user holds {_count(facts, 'held', 'GPU')} and may hold {_number(facts, 'most')}"


def _disabled(_: Facts) -> str:
    return "its user is disabled"


def _ray(facts: Facts) -> str:
    return f"Ray has not answered since {facts.get('since', '?')}"


_SAYING: dict[WaitingCode, Callable[[Facts], str]] = {
    WaitingCode.GPUS: _gpus,
    WaitingCode.WHOLE_NODES: _whole_nodes,
    WaitingCode.CPUS: _cpus,
    WaitingCode.TOO_BIG: _too_big,
    WaitingCode.BEHIND: _behind,
    WaitingCode.RETRY: _retry,
    WaitingCode.MOST_RUNNING: _most_running,
    WaitingCode.USER_LIMIT: _user_limit,
    WaitingCode.DISABLED: _disabled,
    WaitingCode.RAY: _ray,
}


def _never(facts: Facts) -> str:
    return "; no nodes of this cluster can give that: cancel it, or add nodes" if facts.get("never") else ""


def _count(facts: Facts, name: str, noun: str) -> str:
    return f"{_number(facts, name)} {noun}" if facts.get(name) == 1 else f"{_number(facts, name)} {noun}s"


def _number(facts: Facts, name: str) -> str:
    number = facts.get(name, "?")
    return f"{number:g}" if isinstance(number, float) else str(number)
