"""A queue of tasks before a cluster, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from app.training.model import Claim, Demand, Held, Node, WaitingReason
from app.training.model.gang import Decision, Queued, decide

NOW = "2026-11-21T10:00:00.000Z"
LATER = "2026-11-21T10:01:00.000Z"
ONE, TWO, HEAD = "a1", "b2", "c0"


def node(
    name: str,
    gpus: float = 8,
    cpus: float = 26,
    *,
    free: tuple[float, float] | None = None,
    others: Mapping[str, float] | None = None,
    free_others: Mapping[str, float] | None = None,
) -> Node:
    """others: custom resources in all; they are free, unless free_others says what is."""
    free_gpus, free_cpus = free or (gpus, cpus)
    owned = others or {}
    is_free = owned if free_others is None else free_others
    return Node(name, f"10.0.0.{len(name)}", gpus, free_gpus, cpus, free_cpus, resources=owned, free_resources=is_free)


def head(cpus: float = 0) -> Node:
    return replace(node(HEAD, 0, cpus), may_train=False)


def slots(nodes: int, gpus: int, driver: float = 1) -> Demand:
    """As verl's: three CPUs for each GPU."""
    return Demand(nodes, gpus, 3 * gpus, driver)


def queued(demand: Demand, name: str = "t", *, backfill: bool = False, at: str | None = None) -> Queued:
    return Queued(name, demand, backfill, at)


def unclaimed(demand: Demand, name: str = "held") -> Held:
    return Held(name, demand)


def claimed(demand: Demand, on: str, name: str = "held", *, gpus: float | None = None) -> Held:
    """All of its slots on one node."""
    count = demand.gpus if gpus is None else gpus
    return Held(name, demand, Claim({on: count}, {on: 3 * count}))


def ask(
    waiting: Sequence[Queued], nodes: Sequence[Node], held: Sequence[Held] = (), may_start: int | None = None
) -> Decision:
    return decide(waiting, held, nodes, now=NOW, may_start=may_start)


def reason(waiting: Queued, nodes: Sequence[Node], held: Sequence[Held] = ()) -> WaitingReason | None:
    return ask([waiting], nodes, held).reasons.get(waiting.task_id)
