"""Who of the line goes to Ray: never more than there is, nobody that competes past the head, and a task that fits does
go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.training.model import Claim, Demand, Held, Node, WaitingCode, WaitingReason
from app.training.model.gang import Decision
from tests.harness.training.gang import LATER, NOW, ONE, TWO, ask, claimed, head, node, queued, reason, slots, unclaimed


# --- room ---------------------------------------------------------------------------------------------
def test_a_task_goes_when_all_it_demands_is_free() -> None:
    assert ask([queued(slots(1, 8))], [node(ONE), head()]) == Decision(("t",), {})


def test_on_a_busy_cluster_it_waits_and_says_how_much_is_free() -> None:
    full = node(ONE, free=(0, 1))
    why = reason(queued(slots(1, 8)), [full, head()], [claimed(slots(1, 8), ONE)])
    assert why == WaitingReason(WaitingCode.GPUS, {"free": 0, "needed": 8})


def test_a_slot_is_whole_on_one_node() -> None:
    halves = [node(ONE, free=(4, 13)), node(TWO, free=(4, 13))]
    together = {"free": 8, "needed": 8, "nodes": 1, "per_node": 8}
    assert reason(queued(slots(1, 8)), halves) == WaitingReason(WaitingCode.WHOLE_NODES, together)
    assert reason(queued(slots(2, 4)), halves) is None


def test_several_slots_may_share_a_node() -> None:
    assert reason(queued(slots(2, 4)), [node(ONE)]) is None
    assert reason(queued(slots(2, 5)), [node(ONE), node(TWO, 4, 26)]) is not None


def test_every_slot_needs_its_cpus_beside_its_gpus() -> None:
    apart = [node(ONE, free=(8, 9)), node(TWO, free=(0, 26))]
    assert reason(queued(slots(1, 8)), apart) == WaitingReason(WaitingCode.CPUS, {"free": 9, "needed": 25})


def test_cpus_that_are_free_but_not_together_are_said_to_be_so() -> None:
    halves = [node(ONE, 0, 4), node(TWO, 0, 8, free=(0, 4))]
    waiting = reason(queued(Demand(1, 0, 6)), halves)
    assert waiting == WaitingReason(WaitingCode.CPUS, {"free": 8, "needed": 6, "per_node": 6})


def test_the_driver_may_be_on_the_head_and_a_slot_may_not() -> None:
    exact = node(ONE, 8, 24)
    assert reason(queued(slots(1, 8)), [exact, head()]) is not None
    assert reason(queued(slots(1, 8)), [exact, head(1)]) is None
    assert reason(queued(Demand(1, 0, 2)), [exact, head(64)], [claimed(slots(1, 8), ONE)]) is not None


def test_a_driver_goes_where_it_leaves_room_for_the_slots() -> None:
    nodes = [node(ONE, 4, 16), node(TWO, 4, 17)]
    assert reason(queued(Demand(2, 2, 8, 10)), nodes) is None, "both slots on one node, the driver on the other"


def test_half_a_gpu_of_somebody_else_is_not_rounded_away() -> None:
    assert reason(queued(slots(1, 8)), [node(ONE, free=(7.5, 26))]) == WaitingReason(
        WaitingCode.GPUS, {"free": 7.5, "needed": 8}
    )


@pytest.mark.parametrize(("demand", "code"), [(slots(1, 8), WaitingCode.GPUS), (Demand(1, 0, 2, 1), WaitingCode.CPUS)])
def test_without_a_node_that_may_train_nothing_is_free(demand: Demand, code: WaitingCode) -> None:
    needed = demand.gpus or demand.cpus
    for nodes in ([], [head(8)]):
        assert reason(queued(demand), nodes) == WaitingReason(code, {"free": 0, "needed": needed})


# --- what active tasks hold ---------------------------------------------------------------------------
def test_what_was_submitted_and_has_not_claimed_yet_is_kept_for_it() -> None:
    assert reason(queued(slots(1, 8)), [node(ONE)], [unclaimed(slots(1, 8))]) is not None
    assert reason(queued(slots(1, 4)), [node(ONE)], [unclaimed(slots(1, 4))]) is None


def test_what_is_claimed_is_not_counted_twice() -> None:
    half = node(ONE, free=(4, 13))
    assert reason(queued(slots(1, 4)), [half], [claimed(slots(1, 4), ONE)]) is None


def test_a_driver_whose_program_has_claimed_is_not_counted_twice() -> None:
    """Ray says 13 CPUs are used, 12 by the slots: the 13th is its driver's."""
    assert reason(queued(Demand(1, 4, 13)), [node(ONE, free=(4, 13))], [claimed(slots(1, 4), ONE)]) is None
    assert reason(queued(Demand(1, 4, 13)), [node(ONE)], [unclaimed(slots(1, 4))]) is None
    assert reason(queued(Demand(1, 4, 13.5)), [node(ONE)], [unclaimed(slots(1, 4))]) is not None


def test_gpus_that_ray_has_back_a_moment_before_the_job_is_over_are_still_held() -> None:
    back = node(ONE)
    assert reason(queued(slots(1, 8)), [back], [claimed(slots(1, 8), ONE)]) is not None, "its claim is still listed"
    assert reason(queued(slots(1, 8)), [back], [unclaimed(slots(1, 8))]) is not None, "or is not any more"


def test_a_node_whose_gpus_are_back_too_early_is_not_given_away_while_another_is_taken_by_outsiders() -> None:
    nodes = [node(ONE, 8, 100), node(TWO, 8, 100, free=(0, 100))]
    assert reason(queued(slots(1, 8)), nodes, [claimed(slots(1, 8), ONE)]) is not None


def test_the_cpus_of_a_driver_are_kept_until_its_program_claims() -> None:
    nodes = [node(ONE), node(TWO, free=(8, 0))]
    waiting = unclaimed(slots(1, 1, driver=10))
    assert reason(queued(Demand(1, 4, 13)), nodes, [waiting]) is None
    assert reason(queued(Demand(1, 4, 14)), nodes, [waiting]) is not None


def test_what_outsiders_use_is_theirs() -> None:
    shared = node(ONE, free=(2, 8))
    assert reason(queued(slots(1, 4)), [shared], [claimed(slots(1, 4), ONE)]) is not None
    assert reason(queued(slots(1, 2)), [shared], [claimed(slots(1, 4), ONE)]) is None


def test_the_rest_of_a_slot_is_kept_on_the_node_where_it_was_begun() -> None:
    nodes = [node(ONE, free=(6, 20)), node(TWO, free=(4, 13))]
    begun = claimed(slots(1, 8), ONE, gpus=2)
    assert reason(queued(slots(1, 4)), nodes, [begun]) is None
    assert reason(queued(slots(2, 4)), nodes, [begun]) is not None


def test_the_rest_of_a_slot_is_kept_of_gpus_and_of_cpus_alike() -> None:
    taken = node(TWO, 8, 100, free=(0, 0))
    begun = Held("held", slots(1, 8), Claim({ONE: 2}, {ONE: 24}))
    assert reason(queued(Demand(1, 2, 1)), [node(ONE, 8, 100, free=(6, 76)), taken], [begun]) is not None
    begun = Held("held", slots(1, 8), Claim({ONE: 8}, {ONE: 6}))
    assert reason(queued(Demand(1, 0, 3)), [node(ONE, free=(0, 20)), taken], [begun]) is not None
    assert reason(queued(Demand(1, 0, 2)), [node(ONE, free=(0, 20)), taken], [begun]) is None


def test_what_waits_for_a_large_node_keeps_no_small_one() -> None:
    nodes = [node(ONE, free=(0, 26)), node(TWO, 4, 26)]
    assert reason(queued(slots(1, 4)), nodes, [unclaimed(slots(1, 8))]) is None


def test_a_node_in_debt_of_gpus_has_cpus_to_give_once() -> None:
    nodes = [node(ONE, free=(0, 26)), node(TWO, free=(0, 0))]
    line = [queued(Demand(1, 0, 20), "one"), queued(Demand(1, 0, 20), "two")]
    assert ask(line, nodes, [unclaimed(Demand(1, 8, 0))]).admitted == ("one",)


@pytest.mark.parametrize("of", ["GPUs", "CPUs"])
def test_if_active_tasks_demand_more_than_is_left_of_the_cluster_nobody_joins_them(of: str) -> None:
    """Nodes were lost: what their tasks yet claim fits nowhere, and small nodes are free."""

    def sized(nodes: int, amount: int) -> Demand:
        return Demand(nodes, amount, 0) if of == "GPUs" else Demand(nodes, 0, amount)

    def has(name: str, amount: int) -> Node:
        return node(name, amount, 100) if of == "GPUs" else node(name, 0, amount)

    large = [has(ONE, 8), has(TWO, 8), has("d3", 4)]
    assert reason(queued(sized(1, 4)), large, [unclaimed(sized(3, 8))]) is not None
    line = [queued(sized(1, 4), "one"), queued(sized(1, 4), "two")]
    some = [has(ONE, 8), has("d3", 4), has("e4", 4)]
    assert ask(line, some, [unclaimed(sized(1, 12))]).admitted == ("one",)


def test_whoever_lost_the_race_to_an_outsider_gets_what_is_freed_next() -> None:
    robbed = [node(ONE, free=(4, 14)), node(TWO, free=(4, 14))]
    waiting = unclaimed(slots(1, 8))
    assert reason(queued(slots(1, 4)), robbed, [waiting]) is None, "one node is left to others"
    assert reason(queued(slots(2, 4)), robbed, [waiting]) is not None
    assert reason(queued(slots(1, 4)), [node(ONE, free=(4, 13))], [waiting]) is not None


def test_a_claim_on_a_lost_node_is_expected_elsewhere() -> None:
    assert reason(queued(slots(1, 8)), [node(ONE)], [claimed(slots(1, 8), "gone")]) is not None


def test_a_slot_not_claimed_yet_is_expected_where_ray_would_put_it() -> None:
    """On the emptiest node: then the large one does not fit, though there would be a place for both."""
    nodes = [node(ONE, 4, 13), node(TWO, 8, 26)]
    assert reason(queued(slots(1, 8)), nodes, [unclaimed(slots(1, 4))]) is not None
    assert ask([queued(slots(1, 4), "s"), queued(slots(1, 8), "l")], nodes).admitted == ("s",)


def test_several_go_at_once_as_far_as_there_is_room() -> None:
    line = [queued(slots(1, 2), f"t{number}") for number in range(5)]
    nodes = [node(ONE, 8, 40)]
    assert ask(line, nodes).admitted == ("t0", "t1", "t2", "t3")


# --- the line -----------------------------------------------------------------------------------------
def test_nobody_that_competes_passes_the_head_of_the_line() -> None:
    line = [queued(slots(1, 8), "large"), queued(slots(1, 1), "small"), queued(slots(1, 1), "last")]
    decision = ask(line, [node(ONE, free=(4, 13))])
    assert decision.admitted == ()
    assert decision.reasons["small"] == WaitingReason(WaitingCode.BEHIND)
    assert decision.reasons["last"] is decision.reasons["small"], "a long queue makes no object for each"


def test_who_goes_now_is_not_counted_as_ahead() -> None:
    line = [queued(slots(1, 4), "goes"), queued(slots(1, 8), "head"), queued(slots(1, 1), "next")]
    decision = ask(line, [node(ONE, 8, 40)])
    assert decision.admitted == ("goes",)
    assert decision.reasons["next"].code is WaitingCode.BEHIND


def test_a_head_with_backfill_lets_others_go_ahead() -> None:
    line = [
        queued(slots(1, 8), "large", backfill=True),
        queued(slots(1, 6), "also", backfill=True),
        queued(slots(1, 2), "small"),
        queued(slots(1, 8), "strict"),
        queued(slots(1, 1), "last"),
    ]
    decision = ask(line, [node(ONE, free=(4, 13))])
    assert decision.admitted == ("small",)
    assert decision.reasons["large"] == WaitingReason(WaitingCode.GPUS, {"free": 2, "needed": 8}), (
        "what is left at the end"
    )
    assert [decision.reasons[name].code for name in ("also", "strict", "last")] == ["GPUS", "GPUS", "BEHIND"]


def test_a_retry_that_is_not_due_keeps_its_place_at_the_head() -> None:
    line = [queued(slots(1, 8), "again", at=LATER), queued(slots(1, 1), "next")]
    decision = ask(line, [node(ONE)])
    assert decision.reasons["again"] == WaitingReason(WaitingCode.RETRY, {"at": LATER})
    assert decision.admitted == ()
    assert ask([replace(line[0], backfill=True), line[1]], [node(ONE)]).admitted == ("next",)


def test_a_retry_that_is_not_due_and_fits_keeps_its_room_and_no_more() -> None:
    line = [queued(slots(1, 6), "again", at=LATER), queued(slots(1, 2), "beside"), queued(slots(1, 1), "too much")]
    decision = ask(line, [node(ONE)])
    assert decision.admitted == ("beside",)
    assert decision.reasons["too much"].code is WaitingCode.GPUS


def test_behind_a_retry_that_is_not_due_and_does_not_fit_nobody_goes_that_competes() -> None:
    line = [queued(slots(1, 6), "again", at=LATER), queued(slots(1, 2), "small")]
    decision = ask(line, [node(ONE, free=(4, 13))])
    assert (decision.admitted, decision.reasons["small"].code) == ((), WaitingCode.BEHIND)


def test_a_retry_that_is_due_goes() -> None:
    assert ask([queued(slots(1, 8), at=NOW)], [node(ONE)]).admitted == ("t",)


def test_too_large_for_the_cluster_blocks_those_that_compete_as_well_and_says_so() -> None:
    line = [queued(slots(2, 8), "large"), queued(slots(1, 1), "small")]
    decision = ask(line, [node(ONE)])
    assert decision.reasons["large"] == WaitingReason(WaitingCode.TOO_BIG, {"total": 8, "needed": 16, "of": "GPU"})
    assert decision.admitted == ()
    assert ask([replace(line[0], backfill=True), line[1]], [node(ONE)]).admitted == ("small",)


def test_too_many_cpus_for_the_cluster_are_named() -> None:
    why = reason(queued(Demand(1, 1, 40)), [node(ONE)])
    assert why == WaitingReason(WaitingCode.TOO_BIG, {"total": 26, "needed": 40, "of": "CPU"})


@pytest.mark.parametrize(
    ("demand", "code"), [(Demand(1, 16, 3), WaitingCode.WHOLE_NODES), (Demand(1, 0, 32), WaitingCode.CPUS)]
)
def test_what_no_nodes_of_this_cluster_can_give_is_said_to_be_so(demand: Demand, code: WaitingCode) -> None:
    busy = [node(ONE, free=(0, 0)), node(TWO)]
    why = reason(queued(demand), busy)
    assert why is not None
    assert (why.code, why.facts["never"]) == (code, True)


def test_no_more_run_at_once_than_may() -> None:
    line = [queued(slots(1, 1), f"t{number}", backfill=True) for number in range(3)]
    decision = ask(line, [node(ONE)], [claimed(slots(1, 1), TWO)], may_start=1)
    assert decision.admitted == ("t0",)
    assert decision.reasons["t1"] == WaitingReason(WaitingCode.MOST_RUNNING, {"most": 2})


def test_if_more_run_than_may_the_number_that_may_is_said() -> None:
    held = [unclaimed(slots(1, 1), f"h{number}") for number in range(5)]
    decision = ask([queued(slots(1, 1))], [node(ONE)], held, may_start=-2)
    assert decision.reasons["t"] == WaitingReason(WaitingCode.MOST_RUNNING, {"most": 3})
