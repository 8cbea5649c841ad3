"""Whatever the line and the cluster: never more than there is, nobody that competes past the head, and a task that fits
does go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from app.training.model import Claim, Demand, Held, Node, WaitingCode
from app.training.model.gang import Decision, Queued
from tests.harness.timed_search import searched
from tests.harness.training.gang import LATER, NOW, ask, node, queued, unclaimed

pytestmark = pytest.mark.slow
SECONDS = 0.4
"""Of the processor, for each search."""
COUNTS = st.integers(0, 4)
DEMANDS = st.builds(Demand, st.integers(1, 3), COUNTS, st.sampled_from([0.0, 0.5, 1, 2, 3]), st.sampled_from([0, 1, 2]))
TIMES = st.sampled_from([None, NOW, LATER])
LINES = st.lists(st.tuples(DEMANDS, st.booleans(), TIMES), max_size=5).map(
    lambda rows: [Queued(f"t{number}", *row) for number, row in enumerate(rows)]
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    nodes = []
    for number in range(draw(st.integers(0, 3))):
        gpus, cpus = draw(COUNTS), draw(st.integers(0, 8))
        free = draw(st.integers(0, gpus)), draw(st.integers(0, cpus))
        nodes.append(replace(node(f"n{number}", gpus, cpus, free=free), may_train=draw(st.integers(0, 3)) > 0))
    return nodes


@st.composite
def holders(draw: st.DrawFn) -> list[Held]:
    """Claims of any kind: none, half of it, more than it asked for, of nodes that are gone."""
    amounts = st.dictionaries(st.sampled_from(["n0", "n1", "n2", "gone"]), COUNTS.map(float), max_size=3)
    demands = draw(st.lists(DEMANDS, max_size=3))
    return [
        Held(f"h{number}", demand, draw(st.builds(Claim, amounts, amounts))) for number, demand in enumerate(demands)
    ]


@searched(LINES, holders(), clusters(), st.none() | st.integers(-1, 3), seconds=SECONDS)
def test_the_demands_of_active_tasks_never_exceed_what_the_nodes_have(
    line: list[Queued], held: list[Held], nodes: list[Node], may_start: int | None
) -> None:
    admitted = demands(line, ask(line, nodes, held, may_start))
    before, now = [one.demand for one in held], [*(one.demand for one in held), *admitted]
    gpus = sum(one.total_gpus for one in nodes if one.may_train)
    cpus = sum(one.total_cpus for one in nodes)
    assert sum(one.gpus for one in now) <= max(gpus, sum(one.gpus for one in before))
    assert sum(one.cpus for one in now) <= max(cpus, sum(one.cpus for one in before)) + 1e-9
    assert may_start is None or len(admitted) <= max(0, may_start)


@searched(LINES, holders(), clusters(), seconds=SECONDS)
def test_those_admitted_find_places_together_in_what_ray_says_is_free(
    line: list[Queued], held: list[Held], nodes: list[Node]
) -> None:
    assert can_place(demands(line, ask(line, nodes, held)), free_of(nodes))


def may_keep_room(one: Queued, decision: Decision, nodes: list[Node]) -> bool:
    """A retry that is not due and fits keeps its room, and others go beside it."""
    return decision.reasons[one.task_id].code is WaitingCode.RETRY and can_place([one.demand], free_of(nodes))


@searched(LINES, holders(), clusters(), seconds=SECONDS)
def test_nobody_is_admitted_behind_one_that_waits_without_backfill_unless_it_is_said_to_need_nothing_of_it(
    line: list[Queued], held: list[Held], nodes: list[Node]
) -> None:
    decision = ask(line, nodes, held)
    is_over = False
    for one in line:
        assert (one.task_id in decision.admitted) is not (one.task_id in decision.reasons)
        assert (one.task_id in decision.passed) is (is_over and one.task_id in decision.admitted)
        is_over = is_over or (
            one.task_id in decision.reasons and not one.backfill and not may_keep_room(one, decision, nodes)
        )
    assert list(decision.admitted) == sorted(decision.admitted)


@searched(LINES, holders(), clusters(), st.randoms(), seconds=SECONDS)
def test_the_decision_does_not_depend_on_the_order_in_which_ray_lists_its_nodes(
    line: list[Queued], held: list[Held], nodes: list[Node], chance: object
) -> None:
    shuffled = list(nodes)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ask(line, shuffled, held) == ask(line, nodes, held)


@searched(DEMANDS, clusters(), seconds=SECONDS)
def test_alone_in_the_line_with_nobody_active_it_goes_if_and_only_if_it_can_be_placed(
    demand: Demand, nodes: list[Node]
) -> None:
    assert bool(ask([queued(demand)], nodes).admitted) is can_place([demand], free_of(nodes))


@searched(LINES, st.lists(DEMANDS, max_size=3), clusters(), seconds=SECONDS)
def test_ray_places_all_that_were_submitted_in_the_order_of_the_line(
    line: list[Queued], before: list[Demand], nodes: list[Node]
) -> None:
    """Those that have not claimed yet come first. Where they fit, those admitted after them fit as well."""
    line = [replace(one, demand=replace(one.demand, driver_cpus=0)) for one in line]
    before = [replace(demand, driver_cpus=0) for demand in before]
    held = [unclaimed(demand, f"h{number}") for number, demand in enumerate(before)]
    decision = ask(line, nodes, held)
    simulated = Ray(nodes)
    if all(simulated.claim(demand) for demand in before):
        assert all(simulated.claim(demand) for demand in demands(line, decision))


def demands(line: Sequence[Queued], decision: Decision) -> list[Demand]:
    return [one.demand for one in line if one.task_id in decision.admitted]


# --- other ways to the same: by trying all places, and as Ray goes about it ---------------------------
Free = tuple[tuple[float, float, bool], ...]


def free_of(nodes: Sequence[Node]) -> Free:
    return tuple((one.free_gpus, one.free_cpus, one.may_train) for one in nodes)


def can_place(demands: Sequence[Demand], free: Free) -> bool:
    """Try every place of every slot and driver."""
    pieces = []
    for one in demands:
        pieces += [(float(one.gpus_per_node), float(one.cpus_per_node), True)] * one.nodes
        pieces += [(0.0, float(one.driver_cpus), False)] if one.driver_cpus else []
    return _try(tuple(sorted(pieces, reverse=True)), free, {})


def _try(pieces: tuple[tuple[float, float, bool], ...], free: Free, known: dict[object, bool]) -> bool:
    if not pieces:
        return True
    if (pieces, free) not in known:
        gpus, cpus, is_slot = pieces[0]
        known[pieces, free] = any(
            _try(pieces[1:], (*free[:at], (has_gpus - gpus, has_cpus - cpus, trains), *free[at + 1 :]), known)
            for at, (has_gpus, has_cpus, trains) in enumerate(free)
            if has_gpus >= gpus and has_cpus >= cpus and (trains or not is_slot)
        )
    return known[pieces, free]


class Ray:
    """Its placement groups with STRICT_PACK: the node with the best LeastResourceScorer, the first of equals."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.free = [[one.free_gpus, one.free_cpus, one.may_train] for one in nodes]

    def claim(self, demand: Demand) -> bool:
        return all([self._pack(demand) for _ in range(demand.nodes)])

    def _pack(self, demand: Demand) -> bool:
        gpus, cpus = demand.gpus_per_node, demand.cpus_per_node
        fitting = [at for at, (g, c, trains) in enumerate(self.free) if trains and g >= gpus and c >= cpus]
        if not fitting:
            return False
        best = max(fitting, key=lambda at: self._score(at, gpus, cpus))
        self.free[best][0] -= gpus
        self.free[best][1] -= cpus
        return True

    def _score(self, at: int, gpus: float, cpus: float) -> float:
        pairs = zip(self.free[at][:2], (gpus, cpus), strict=True)
        return sum((has - needed) / has for has, needed in pairs if needed)
