"""Who gives way to a more urgent task: only where that makes room, the least urgent and last begun first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.training.model import Priority, WaitingCode, WaitingReason
from app.training.model.gang import AdmissionRules, Decision, Queued, decide
from app.training.model.preemption import Preemptible, giving_way
from app.training.model.queue_order import QueuePolicy
from app.training.model.simulation import Cluster, simulate
from app.training.model.trace import TraceTask
from tests.harness.training.gang import NOW, ONE, TWO, claimed, node, slots, unclaimed

BEGIN = datetime(2026, 11, 21, 9, tzinfo=UTC)
LOW, NORMAL, HIGH = Priority.LOW, Priority.NORMAL, Priority.HIGH
FULL = [node(ONE, free=(0, 2)), node(TWO, free=(0, 2))]
HOLDING = [
    claimed(slots(1, 4), ONE, "a"),
    claimed(slots(1, 4), ONE, "b"),
    claimed(slots(1, 4), TWO, "c"),
    claimed(slots(1, 4), TWO, "d"),
]


def one(name: str, priority: Priority = LOW, minute: int = 0, *, is_asked: bool = False) -> Preemptible:
    return Preemptible(name, priority, BEGIN + timedelta(minutes=minute), is_asked)


def chosen(gpus: int, *candidates: Preemptible, nodes: int = 1, priority: Priority = HIGH, ending: str = "") -> object:
    given = giving_way(slots(nodes, gpus), priority, HOLDING, FULL, candidates, set(ending))
    return given if given is None else set(given)


def test_the_least_urgent_and_of_these_the_last_begun_goes() -> None:
    assert chosen(4, one("a", NORMAL, 9), one("b", LOW, 1), one("c", LOW, 2)) == {"c"}


def test_as_many_go_as_are_needed_and_no_more() -> None:
    every = [one("a", minute=4), one("b", minute=1), one("c", minute=3), one("d", minute=2)]
    assert chosen(8, *every) == {"c", "d"}, "a began last, and its room alone would not do"
    assert chosen(8, *every, nodes=2) == {"a", "b", "c", "d"}


def test_nobody_goes_for_nothing() -> None:
    assert chosen(8, one("a"), one("c")) is None
    assert chosen(8, *(one(name) for name in "abcd"), nodes=3) is None


def test_only_less_urgent_ones_go() -> None:
    assert chosen(4, one("a", NORMAL), priority=NORMAL) is None
    assert chosen(4, one("a", LOW), priority=NORMAL) == {"a"}


def test_who_was_asked_stays_asked_while_that_is_needed() -> None:
    assert chosen(4, one("a", minute=9), one("b", minute=1, is_asked=True)) == {"b"}


def test_room_that_is_being_made_anyway_is_waited_for() -> None:
    assert chosen(4, one("a"), ending="d") == set()
    assert chosen(8, one("a"), one("b"), one("c", minute=1), ending="d") == {"c"}


def test_what_a_task_was_promised_is_given_back_too() -> None:
    held = [unclaimed(slots(1, 8), "a")]
    assert giving_way(slots(1, 8), HIGH, held, [node(ONE)], [one("a")]) == ("a",)


# --- in the queue -------------------------------------------------------------------------------------
def decision(*waiting: Queued, ending: str = "", **rules: object) -> Decision:
    given = AdmissionRules(preemptible=[one("a"), one("b", minute=1)], ending=set(ending), **rules)  # type: ignore[arg-type]
    return decide(waiting, HOLDING, FULL, now=NOW, may_start=None, rules=given)


def urgent(name: str, gpus: int = 4, priority: Priority = HIGH, *, backfill: bool = False) -> Queued:
    return Queued(name, slots(1, gpus), backfill, priority=priority)


def test_the_first_that_waits_for_room_is_made_some_and_says_so() -> None:
    made = decision(urgent("first"), urgent("second"))
    assert (made.admitted, made.giving_way) == ((), ("b",))
    assert made.reasons["first"] == WaitingReason(WaitingCode.GPUS, {"free": 0, "needed": 4, "giving_way": 1})
    assert made.reasons["second"] == WaitingReason(WaitingCode.BEHIND)


def test_nobody_takes_what_is_left_for_it_by_backfill() -> None:
    short = Queued("short", slots(1, 0), run_limit_s=60)
    assert decision(urgent("first"), short, does_backfill=True).admitted == ()
    assert decision(urgent("first"), short, does_backfill=True, ending="b").admitted == ()


def test_one_that_is_not_more_urgent_waits_as_ever() -> None:
    assert decision(urgent("first", priority=LOW)).giving_way == ()


def test_without_candidates_nothing_changes() -> None:
    made = decide([urgent("first")], HOLDING, FULL, now=NOW, may_start=None)
    assert (made.giving_way, made.reasons["first"].facts) == ((), {"free": 0, "needed": 4})


def test_one_that_lets_others_go_ahead_makes_nobody_give_way() -> None:
    assert decision(urgent("first", backfill=True)).giving_way == ()


# --- on a trace ---------------------------------------------------------------------------------------
def run(checkpoint_s: float, preempted: tuple[Priority, ...] = (LOW,)) -> tuple[float, float, int]:
    trace = [
        TraceTask("long", "u", 0, 8, 1000, priority=LOW),
        TraceTask("urgent", "v", 150, 8, 100, priority=HIGH),
    ]
    made = simulate(trace, Cluster(1, 8), QueuePolicy.PRIORITY, preempted=preempted, checkpoint_s=checkpoint_s)
    return made.wait_p95_s, made.makespan_s, made.preemptions


def test_on_a_trace_it_stops_at_its_next_checkpoint_and_goes_on_from_there() -> None:
    longest, makespan, count = run(100)
    assert (makespan, count) == (1100, 1), "nothing is done twice"
    assert longest == pytest.approx(100, abs=3), "the long one waits for the urgent one, that one for a checkpoint"


def test_one_that_ends_before_its_next_checkpoint_is_let_run() -> None:
    assert run(5000)[2] == 0
    assert run(100, ())[1:] == (1100, 0)
