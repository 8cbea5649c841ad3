"""In which order tasks come: by submission, by priority, by fair shares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.training.model import Demand, Priority
from app.training.model.gang import Queued
from app.training.model.queue_order import HALF_LIFE_S, QueuePolicy, Shares, Use, compute_decayed_use, in_order

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def task(name: str, user: str = "alice", *, gpus: int = 1, priority: Priority = Priority.NORMAL) -> Queued:
    return Queued(name, Demand(1, gpus, 0), user=user, priority=priority)


def names(tasks: list[Queued], policy: QueuePolicy, shares: Shares | None = None) -> str:
    return " ".join(one.task_id for one in in_order(tasks, policy, shares))


MIXED = [
    task("a1"),
    task("a2", priority=Priority.LOW),
    task("b1", "bob", priority=Priority.HIGH),
    task("b2", "bob"),
]


def test_first_come_first_served_heeds_nothing_else() -> None:
    assert names(MIXED, QueuePolicy.FIFO) == "a1 a2 b1 b2"


def test_by_priority_equals_keep_their_order() -> None:
    assert names(MIXED, QueuePolicy.PRIORITY) == "b1 a1 b2 a2"


def test_fair_shares_take_turns_however_many_one_has_sent() -> None:
    tasks = [*(task(f"a{n}") for n in range(4)), task("b0", "bob"), task("b1", "bob")]
    assert names(tasks, QueuePolicy.FAIR) == "a0 b0 a1 b1 a2 a3"


def test_who_has_used_less_comes_first_until_it_is_even() -> None:
    shares = Shares(used_gpu_s={"alice": 7200.0})
    tasks = [task("a0"), task("b0", "bob"), task("b1", "bob"), task("b2", "bob")]
    assert names(tasks, QueuePolicy.FAIR, shares) == "b0 b1 a0 b2"


def test_a_weight_of_two_is_owed_twice_as_much() -> None:
    shares = Shares(weights={"alice": 2.0})
    tasks = [*(task(f"a{n}") for n in range(4)), *(task(f"b{n}", "bob") for n in range(2))]
    assert names(tasks, QueuePolicy.FAIR, shares) == "a0 b0 a1 a2 b1 a3"


def test_a_large_task_is_charged_by_its_gpus() -> None:
    tasks = [task("a0", gpus=4), task("a1"), *(task(f"b{n}", "bob") for n in range(5))]
    assert names(tasks, QueuePolicy.FAIR) == "a0 b0 b1 b2 b3 a1 b4"


def test_shares_do_not_pass_a_higher_priority() -> None:
    shares = Shares(used_gpu_s={"alice": 1e9})
    tasks = [task("b0", "bob"), task("a0", priority=Priority.HIGH)]
    assert names(tasks, QueuePolicy.FAIR, shares) == "a0 b0"


def test_use_fades_by_half_in_each_half_life() -> None:
    hour = timedelta(hours=1)
    old = NOW - timedelta(seconds=HALF_LIFE_S)
    uses = [Use("alice", 8, NOW - hour, NOW), Use("bob", 8, old - hour, old)]
    assert compute_decayed_use(uses, NOW) == pytest.approx({"alice": 8 * 3600, "bob": 4 * 3600})


def test_a_use_whose_clock_ran_backwards_counts_nothing() -> None:
    assert compute_decayed_use([Use("alice", 8, NOW, NOW - timedelta(hours=1))], NOW) == {"alice": 0.0}
