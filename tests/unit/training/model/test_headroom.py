"""Who goes ahead of tasks that wait for room because it needs nothing that they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.training.model import Claim, Demand, Held, Node, WaitingCode
from app.training.model.gang import AdmissionRules, Decision, Queued, decide
from tests.harness.training.gang import LATER, NOW, ONE, TWO, ask, claimed, head, node, queued, slots, unclaimed

LARGE = queued(slots(1, 8), "large")
"""25 CPUs beside its GPUs."""
RUNS = claimed(slots(1, 8), ONE, "runs")


def script(name: str = "script", cpus: float = 1, **fields: object) -> Queued:
    return Queued(name, Demand(1, 0, cpus, claims_by_group=False), **fields)  # type: ignore[arg-type]


def busy(cpus: float = 32, name: str = ONE) -> Node:
    """All its GPUs run one task, with its driver."""
    return node(name, 8, cpus, free=(0, cpus - 25))


def test_a_script_without_gpus_goes_ahead_where_the_cpus_suffice_for_both() -> None:
    decision = ask([LARGE, script()], [busy()], [RUNS])
    assert decision.admitted == ("script",)
    assert decision.passed == {"script": 1}
    assert decision.reasons["large"].code is WaitingCode.GPUS


def test_where_the_first_would_lack_its_cpus_once_its_gpus_are_free_it_waits() -> None:
    decision = ask([LARGE, script(cpus=7)], [busy()], [RUNS])
    assert (decision.admitted, decision.reasons["script"].code) == ((), WaitingCode.BEHIND)
    assert decision.passed == {}


def test_the_driver_of_the_first_needs_its_cpus_as_well() -> None:
    """26 CPUs: 24 for its slots, one for its driver, and one to spare."""
    tight = node(ONE, 8, 26, free=(0, 2))
    bare = claimed(slots(1, 8, 0), ONE, "runs")
    assert ask([LARGE, script()], [tight], [bare]).admitted == ("script",)
    assert ask([LARGE, script(cpus=2)], [tight], [bare]).admitted == ()


def test_the_driver_of_the_first_has_room_elsewhere() -> None:
    assert ask(
        [LARGE, script(cpus=2)], [node(ONE, 8, 26, free=(0, 2)), head(4)], [claimed(slots(1, 8, 0), ONE)]
    ).admitted


def test_what_runs_beside_the_gpus_is_reckoned_to_stay() -> None:
    other = Held("other", Demand(1, 0, 6), Claim({}, {ONE: 6}))
    assert ask([LARGE, script()], [node(ONE, 8, 32, free=(0, 1))], [RUNS, other]).admitted == ()
    assert ask([LARGE, script()], [node(ONE, 8, 34, free=(0, 3))], [RUNS, other]).admitted == ("script",)


def test_several_of_the_same_kind_leave_the_first_its_cpus_in_all() -> None:
    line = [LARGE, *(script(f"s{number}", 2) for number in range(4))]
    decision = ask(line, [busy()], [RUNS])
    assert decision.admitted == ("s0", "s1", "s2"), (
        "of 32 CPUs 24 are for its slots, one is for its driver, and one may stay in use"
    )
    assert decision.passed == {"s0": 1, "s1": 1, "s2": 1}
    begun = [Held(name, Demand(1, 0, 2), Claim({}, {ONE: 2})) for name in decision.admitted]
    again = ask([LARGE, line[-1]], [node(ONE, 8, 32, free=(0, 1))], [RUNS, *begun])
    assert again.admitted == (), "nor later"


@pytest.mark.parametrize("other", [slots(1, 1), Demand(1, 1, 0)])
def test_who_needs_a_gpu_competes_for_it(other: Demand) -> None:
    half = node(ONE, 8, 64, free=(4, 40))
    assert ask([LARGE, queued(other, "small")], [half], [claimed(slots(1, 4), ONE)]).admitted == ()


def test_a_task_for_gpus_of_another_type_goes_ahead() -> None:
    a, h = {"accelerator_type:A100": 1.0}, {"accelerator_type:H100": 1.0}
    nodes = [node(ONE, 8, 64, free=(0, 40), others=a), node(TWO, 8, 64, others=h)]

    def of(kind: dict[str, float]) -> Demand:
        return replace(slots(1, 8), resources=tuple((name, 0.001) for name in kind))

    running = Held("runs", of(a), Claim({ONE: 8}, {ONE: 24}))
    line = [queued(of(a), "first"), queued(of(h), "other"), queued(slots(1, 8), "any")]
    assert ask(line, nodes, [running]).admitted == ("other",)
    assert ask([line[0], line[2]], nodes, [running]).admitted == (), "Ray might give it the GPUs of the first"


def test_behind_several_it_takes_nothing_of_any() -> None:
    wide = queued(Demand(1, 0, 30), "wide")
    decision = ask([LARGE, wide, script()], [busy()], [RUNS])
    assert decision.admitted == ()
    assert decision.reasons["wide"].code is decision.reasons["script"].code is WaitingCode.BEHIND


def test_while_it_is_unknown_where_a_task_will_have_its_gpus_nobody_goes_ahead() -> None:
    nodes = [node(ONE, 8, 64), node(TWO, 8, 64)]
    two = queued(slots(2, 8), "two")
    assert ask([two, script()], nodes, [unclaimed(slots(1, 4))]).admitted == ()
    assert ask([two, script()], [node(ONE, 8, 64, free=(4, 51)), nodes[1]], [claimed(slots(1, 4), ONE)]).admitted


def test_one_that_has_gone_ahead_and_not_claimed_yet_holds_up_no_other() -> None:
    begun = Held("s0", Demand(1, 0, 2, claims_by_group=False))
    assert ask([LARGE, script("s1", 2)], [busy()], [RUNS, begun]).admitted == ("s1",)


def test_behind_a_retry_that_does_not_fit_the_same_holds() -> None:
    again = queued(slots(1, 8), "again", at=LATER)
    assert ask([again, script()], [busy()], [RUNS]).admitted == ("script",)


def test_behind_one_too_large_for_the_cluster_only_those_go_that_need_nothing_of_it() -> None:
    line = [queued(slots(2, 8), "large"), script(), queued(slots(1, 1), "small")]
    decision = ask(line, [node(ONE, 8, 32)])
    assert decision.admitted == ("script",)
    assert decision.reasons["small"].code is WaitingCode.BEHIND


def test_the_places_of_those_that_wait_stay_free_where_few_may_run() -> None:
    assert ask([LARGE, script()], [busy()], [RUNS], may_start=1).admitted == ()
    assert ask([LARGE, script()], [busy()], [RUNS], may_start=2).admitted == ("script",)


@pytest.mark.parametrize("limit", ["user", "environment"])
def test_a_task_under_the_same_limit_does_not_go_ahead(limit: str) -> None:
    a, h = (("a", 1.0),), (("h", 1.0),)
    nodes = [node(ONE, 8, 64, free=(0, 40), others={"a": 1}, free_others={}), node(TWO, 8, 64, others={"h": 1})]
    running = Held("runs", replace(slots(1, 8), resources=a), Claim({ONE: 8}, {ONE: 24}))
    by_user = AdmissionRules(most_gpus_per_user=16)
    rules = by_user if limit == "user" else AdmissionRules(most_gpus_per_environment={"same": 16})

    def decision(name: str) -> Decision:
        line = [
            Queued("first", replace(slots(1, 8), resources=a), user="same", environment="same"),
            Queued("other", replace(slots(1, 8), resources=h), user=name, environment=name),
        ]
        return decide(line, [running], nodes, now=NOW, may_start=None, rules=rules)

    assert decision("same").admitted == ()
    assert decision("different").admitted == ("other",)


def test_behind_tasks_of_many_kinds_nobody_goes_ahead() -> None:
    def line(count: int) -> Sequence[Queued]:
        return [*(queued(Demand(1, 8, number), f"t{number}") for number in range(1, count + 1)), script()]

    assert ask(line(16), [busy()], [RUNS]).admitted == ("script",)
    assert ask(line(17), [busy()], [RUNS]).admitted == ()
