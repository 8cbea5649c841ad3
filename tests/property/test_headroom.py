"""Whoever goes ahead of a task that waits for room does not delay it, whatever ends first and wherever it was put."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import strategies as st

from app.training.model import Claim, Demand, Held, Node
from app.training.model.capacity import Capacity
from app.training.model.demand import Need
from app.training.model.headroom import Headroom
from app.training.model.queue_order import QueuePolicy
from app.training.model.simulation import Cluster, SimulationResult, simulate
from app.training.model.trace import TraceTask
from tests.harness.timed_search import searched
from tests.harness.training.gang import node

pytestmark = pytest.mark.slow
SECONDS = 0.4
TYPES = st.sampled_from([(), (("a", 1.0),), (("b", 1.0),)])
DEMANDS = st.builds(
    Demand, st.integers(1, 3), st.integers(0, 4), st.integers(0, 5), st.sampled_from([0, 1, 2]), resources=TYPES
)
SINGLE = st.builds(Demand, st.just(1), st.integers(0, 2), st.integers(0, 3), resources=TYPES)


@st.composite
def states(draw: st.DrawFn) -> tuple[list[Node], list[Held]]:
    """Nodes, and tasks that have claimed all of theirs where there was room."""
    nodes = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from([{}, {"a": 1.0}, {"b": 1.0}]))
        nodes.append(node(f"n{number}", draw(st.integers(0, 4)), draw(st.integers(0, 10)), others=kind))
    if draw(st.booleans()):
        nodes.append(replace(node("head", 0, draw(st.integers(0, 3))), may_train=False))
    held: list[Held] = []
    for number, demand in enumerate(draw(st.lists(SINGLE, max_size=5))):
        one, driver_cpus = replace(demand, resources=()), draw(st.sampled_from([0, 0, 1]))
        at = draw(st.integers(0, len(nodes) - 1))
        nodes = put(nodes, at, one, driver_cpus, held, f"h{number}") or nodes
    return nodes, held


def put(nodes: list[Node], at: int, one: Demand, driver_cpus: int, held: list[Held], name: str) -> list[Node] | None:
    """With its driver on the same node; None: there is no room."""
    place = nodes[at]
    gpus, cpus = place.free_gpus - one.gpus, place.free_cpus - one.cpus - driver_cpus
    if not place.may_train or gpus < 0 or cpus < 0 or not (one.gpus or one.cpus):
        return None
    claim = Claim({place.node_id: float(one.gpus)}, {place.node_id: float(one.cpus_per_node)})
    held.append(Held(name, replace(one, driver_cpus=driver_cpus), claim))
    return [replace(one, free_gpus=gpus, free_cpus=cpus) if one is place else one for one in nodes]


def later(nodes: Sequence[Node], held: Sequence[Held]) -> Iterator[tuple[list[Node], list[Held]]]:
    """Each combination of what may have ended."""
    for count in range(len(held) + 1):
        for ended in combinations(held, count):
            freed = list(nodes)
            for holder in ended:
                (node_id,) = holder.claim.gpus
                freed = [
                    replace(
                        one,
                        free_gpus=one.free_gpus + holder.demand.gpus,
                        free_cpus=one.free_cpus + holder.demand.cpus,
                    )
                    if one.node_id == node_id
                    else one
                    for one in freed
                ]
            yield freed, [holder for holder in held if holder not in ended]


def fits(demand: Demand, nodes: Sequence[Node], held: Sequence[Held]) -> bool:
    return Capacity(nodes, held).place(Need.of(demand)) is not None


@searched(states(), DEMANDS, SINGLE, seconds=SECONDS)
def test_what_is_admitted_takes_nothing_of_the_waiting_task_wherever_it_is_put(
    state: tuple[list[Node], list[Held]], waits: Demand, other: Demand
) -> None:
    nodes, held = state
    if fits(waits, nodes, held) or not Headroom(Need.of(waits), nodes, held).admits(Need.of(other)):
        return
    for at, place in enumerate(nodes):
        if not all(place.resources.get(name, 0) >= amount for name, amount in other.resources):
            continue
        for before, left in later(nodes, held):  # it may take its place after others have ended
            began = list(left)
            after = put(before, at, other, 0, began, "other")
            if after is None:
                continue
            for freed, running in later(before, left):
                rest = [holder for holder in began if holder in running or holder.task_id == "other"]
                with_other = put(freed, at, other, 0, [], "other") or []
                assert not fits(waits, freed, running) or fits(waits, with_other, rest)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceTask]:
    tasks = []
    for number in range(draw(st.integers(2, 12))):
        gpus, cpus = draw(st.sampled_from([0, 0, 1, 2, 4, 8])), draw(st.sampled_from([0, 1, 2, 4, 12]))
        at_s = draw(st.integers(0, 5))
        tasks.append(TraceTask(f"t{number}", "u", at_s, gpus, draw(st.integers(1, 50)), cpus=cpus))
    ordered = sorted(tasks, key=lambda task: task.submit_s)
    return [replace(task, name=f"t{number}") for number, task in enumerate(ordered)]


@searched(traces(), st.integers(1, 3), st.integers(4, 16), seconds=SECONDS)
def test_the_first_that_waits_starts_no_later_than_it_would_without_those_behind_it(
    trace: list[TraceTask], nodes: int, cpus: int
) -> None:
    """It may start earlier: the submission of another is a moment at which the scheduler looks again."""
    cluster = Cluster(nodes, 4, cpus)
    result = _run(trace, cluster)
    places = [at for at, task in enumerate(trace) if result.starts_s.get(task.name, 0) > task.submit_s]
    if places:
        first = places[0]
        alone = _run(trace[: first + 1], cluster)
        assert result.starts_s[f"t{first}"] <= alone.starts_s[f"t{first}"]


def _run(trace: Sequence[TraceTask], cluster: Cluster) -> SimulationResult:
    return simulate(trace, cluster, QueuePolicy.FIFO)
