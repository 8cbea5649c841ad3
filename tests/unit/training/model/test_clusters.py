"""One queue before several clusters: where a task starts, and whom it holds up."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from app.training.model import Demand, Node, Priority
from app.training.model.clusters import ClusterState, decide_on_clusters
from app.training.model.gang import AdmissionRules, Decision, Queued
from app.training.model.preemption import Preemptible
from tests.harness.training.gang import NOW, ONE, claimed, slots
from tests.harness.training.gang import node as node_of

BEGIN = datetime(2026, 11, 20, 9, tzinfo=UTC)
BOTH = ("", "west")
NO_RULES = AdmissionRules()
Wait = tuple[Queued, Collection[str]]


def task(name: str, gpus: int, places: Collection[str] = ("",), *, user: str = "", **fields: object) -> Wait:
    return Queued(name, Demand(1, gpus, 0), user=user, **fields), places  # type: ignore[arg-type]


def node(gpus: float, free: float | None = None) -> Node:
    return node_of(ONE, gpus, free=(gpus if free is None else free, 26))


def state(*nodes: Node, rules: AdmissionRules = NO_RULES, **tasks: int) -> ClusterState:
    return ClusterState([claimed(slots(1, gpus), ONE, name) for name, gpus in tasks.items()], nodes, rules)


def decided(
    waiting: list[Wait], default: ClusterState, west: ClusterState, may_start: int | None = None, active: int = 0
) -> dict[str, Decision]:
    return decide_on_clusters(waiting, {"": default, "west": west}, now=NOW, active=active, may_start=may_start)


def started(decisions: dict[str, Decision]) -> dict[str, tuple[str, ...]]:
    return {name: decision.admitted for name, decision in decisions.items()}


def test_a_task_that_waits_for_its_cluster_holds_up_nobody_elsewhere() -> None:
    waiting = [task("large", 8), task("behind", 1), task("other", 1, ("west",))]
    decisions = decided(waiting, state(node(8, 4)), state(node(8)))
    assert started(decisions) == {"": (), "west": ("other",)}
    assert list(decisions[""].reasons) == ["large", "behind"] and not decisions["west"].reasons


def test_a_task_for_any_cluster_starts_once_on_the_first_with_room() -> None:
    assert started(decided([task("a", 8, BOTH)], state(node(8)), state(node(8)))) == {"": ("a",), "west": ()}
    full = decided([task("a", 8, BOTH)], state(node(8, 4)), state(node(8)))
    assert started(full) == {"": (), "west": ("a",)} and not full[""].reasons


def test_a_task_for_any_cluster_that_waits_is_overtaken_on_none() -> None:
    waiting = [task("a", 8, BOTH), task("b", 1), task("c", 1, ("west",))]
    assert started(decided(waiting, state(node(8, 4)), state(node(8, 4)))) == {"": (), "west": ()}


def test_it_holds_up_nobody_where_it_could_never_fit() -> None:
    waiting = [task("a", 8, BOTH), task("b", 1)]
    assert started(decided(waiting, state(node(4)), state(node(8, 4)))) == {"": ("b",), "west": ()}


def test_limits_hold_for_all_clusters_together() -> None:
    rules = AdmissionRules(most_gpus_per_user=8, held_gpus={"alice": 2})
    waiting = [task("a", 4, user="alice"), task("b", 4, ("west",), user="alice"), task("c", 4, ("west",), user="bob")]
    decisions = decided(waiting, state(node(8), rules=rules), state(node(8), rules=rules))
    assert started(decisions) == {"": ("a",), "west": ("c",)}
    assert decisions["west"].reasons["b"].facts == {"held": 6, "most": 8}


def test_so_does_the_number_of_running_tasks() -> None:
    waiting = [task("a", 1), task("b", 1, ("west",))]
    decisions = decided(waiting, state(node(8)), state(node(8)), may_start=1, active=3)
    assert started(decisions) == {"": ("a",), "west": ()}
    assert decisions["west"].reasons["b"].facts == {"most": 4}


def test_nobody_makes_room_for_a_task_that_starts_elsewhere() -> None:
    rules = AdmissionRules(preemptible=[Preemptible("low", Priority.LOW, BEGIN)])
    waiting = [task("urgent", 8, BOTH, priority=Priority.HIGH)]
    default = state(node(8, 0), rules=rules, low=8)
    assert decided(waiting, default, state(node(8, 4)))[""].giving_way == ("low",)
    decisions = decided(waiting, default, state(node(8)))
    assert started(decisions) == {"": (), "west": ("urgent",)} and decisions[""].giving_way == ()
