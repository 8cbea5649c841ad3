"""Who goes ahead of the head of the queue without delaying it, and what the head is promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from app.kit.clock import from_text, to_text
from app.training.model import Held, Node, WaitingCode
from app.training.model.gang import AdmissionRules, Decision, Queued, decide
from tests.harness.training.gang import NOW, ONE, TWO, claimed, head, node, slots

HOUR = 3600
BEGIN = from_text(NOW)


def after(hours: float) -> datetime:
    return BEGIN + timedelta(hours=hours)


def task(name: str, nodes: int, gpus: int, *, limit_h: float | None = None, user: str = "") -> Queued:
    return Queued(name, slots(nodes, gpus, 0), user=user, run_limit_s=None if limit_h is None else int(limit_h * HOUR))


def ask(
    waiting: Sequence[Queued],
    held: Sequence[Held],
    ends: Mapping[str, datetime],
    nodes: Sequence[Node] | None = None,
    **rules: object,
) -> Decision:
    """Two nodes of eight GPUs; the first is full."""
    cluster = nodes or [node(ONE, free=(0, 2)), node(TWO), head(8)]
    chosen = AdmissionRules(does_backfill=True, ends=ends, **rules)  # type: ignore[arg-type]
    return decide(waiting, held, cluster, now=NOW, may_start=None, rules=chosen)


RUNS = [claimed(slots(1, 8, 0), ONE, "runs")]


def test_a_short_task_goes_ahead_of_a_head_that_cannot_start_before_it_ends() -> None:
    decision = ask([task("big", 2, 8), task("short", 1, 4, limit_h=1)], RUNS, {"runs": after(2)})
    assert decision.admitted == ("short",)
    assert decision.reasons["big"].facts["starts_by"] == to_text(after(2))


@pytest.mark.parametrize(
    ("user", "told"),
    [("alice", {"after_user": "alice", "after_task": "second"}), ("bob", {"after_user": "alice"})],
)
def test_the_promise_names_the_task_that_must_end_and_to_another_user_only_whose_it_is(
    user: str, told: dict[str, str]
) -> None:
    held = [replace(claimed(slots(1, 4, 0), ONE, name), user="alice") for name in ("first", "second", "third")]
    ends = {"first": after(1), "second": after(3), "third": after(5)}
    cluster = [node(ONE, 12, 36, free=(0, 2)), head(8)]
    facts = ask([task("big", 1, 8, user=user)], held, ends, cluster).reasons["big"].facts
    assert facts["starts_by"] == to_text(after(3)), "with the end of the second it fits"
    assert {name: value for name, value in facts.items() if name.startswith("after_")} == told


def test_one_that_would_still_run_then_waits() -> None:
    decision = ask([task("big", 2, 8), task("long", 1, 4, limit_h=3)], RUNS, {"runs": after(2)})
    assert decision.admitted == ()
    assert decision.reasons["long"].code is WaitingCode.BEHIND


def test_a_long_one_goes_where_it_leaves_the_head_its_room() -> None:
    cluster = [node(ONE, free=(0, 2)), node(TWO), node("c3"), head(8)]
    held = [*RUNS, claimed(slots(1, 4, 0), TWO, "half")]
    cluster[1] = node(TWO, free=(4, 14))
    decision = ask([task("big", 2, 8), task("long", 1, 4)], held, {"runs": after(2)}, cluster)
    assert decision.admitted == ("long",), "the head takes the first and the third node, the second has room"


def test_without_time_limits_nobody_goes_ahead() -> None:
    decision = ask([task("big", 2, 8), task("short", 1, 4, limit_h=1)], RUNS, {})
    assert decision.admitted == ()
    assert "starts_by" not in decision.reasons["big"].facts


def test_where_backfill_is_off_nobody_goes_ahead() -> None:
    rules = AdmissionRules(ends={"runs": after(2)})
    waiting = [task("big", 2, 8), task("short", 1, 4, limit_h=1)]
    cluster = [node(ONE, free=(0, 2)), node(TWO), head(8)]
    assert decide(waiting, RUNS, cluster, now=NOW, may_start=None, rules=rules).admitted == ()


def test_the_head_is_promised_the_first_moment_at_which_it_fits() -> None:
    held = [claimed(slots(1, 4, 0), ONE, "first"), claimed(slots(1, 4, 0), ONE, "second")]
    decision = ask([task("big", 2, 8)], held, {"first": after(1), "second": after(5)})
    assert decision.reasons["big"].facts["starts_by"] == to_text(after(5))
    half = ask([task("three", 3, 4)], held, {"first": after(1), "second": after(5)})
    assert half.reasons["three"].facts["starts_by"] == to_text(after(1))


def test_what_was_admitted_just_now_counts_for_the_promise() -> None:
    waiting = [task("small", 1, 8, limit_h=4), task("big", 2, 8), task("short", 1, 4, limit_h=1)]
    cluster = [node(ONE, free=(0, 2)), node(TWO), head(8)]
    decision = ask(waiting, RUNS, {"runs": after(2)}, cluster)
    assert decision.admitted == ("small",)
    assert decision.reasons["big"].facts["starts_by"] == to_text(after(4))


def test_short_ones_do_not_take_each_others_room() -> None:
    waiting = [task("big", 2, 8), *(task(f"s{n}", 1, 4, limit_h=1) for n in range(3))]
    decision = ask(waiting, RUNS, {"runs": after(2)})
    assert decision.admitted == ("s0", "s1")
    assert decision.reasons["s2"].code is WaitingCode.GPUS


def test_who_holds_as_much_as_a_user_may_waits_and_others_go() -> None:
    waiting = [task("mine", 1, 2, user="alice"), task("yours", 1, 2, user="bob")]
    decision = ask(waiting, RUNS, {}, most_gpus_per_user=8, held_gpus={"alice": 8})
    assert decision.admitted == ("yours",)
    assert decision.reasons["mine"].code is WaitingCode.USER_LIMIT
    assert decision.reasons["mine"].facts == {"held": 8, "most": 8}


def test_the_limit_of_a_user_counts_what_is_admitted_in_the_same_round() -> None:
    waiting = [task(f"t{n}", 1, 2, user="alice") for n in range(3)]
    decision = ask(waiting, RUNS, {}, most_gpus_per_user=4)
    assert decision.admitted == ("t0", "t1")
