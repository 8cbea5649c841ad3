"""Calls of several jobs on the same processes: each job gets the same time."""

from __future__ import annotations

from collections import Counter

import pytest

from app.edge.video.stage_host.fair_queue import MOST_WAITING, FairQueue
from app.kit.errors import TooMany


def served(queue: FairQueue[int], costs: dict[str, float], seconds: float, *, at_once: int = 1) -> Counter[str]:
    """How often each job is served by one process, when each has always so many calls there."""
    counts: Counter[str] = Counter()
    for name in costs:
        for number in range(at_once):
            queue.put(name, number)
    now = 0.0
    while now < seconds:
        taken = queue.take()
        assert taken is not None
        name, _ = taken
        now += costs[name]
        queue.settle(name, costs[name])
        counts[name] += 1
        queue.put(name, 0)
    return counts


def test_three_equal_jobs_advance_evenly() -> None:
    counts = served(FairQueue(), {"a": 0.03, "b": 0.03, "c": 0.03}, 9)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_job_with_more_calls_at_once_gets_no_more() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(4):
        queue.put("greedy", number)
    queue.put("modest", 0)
    first = [taken[0] for taken in (queue.take(), queue.take()) if taken]
    assert sorted(first) == ["greedy", "modest"]


def test_time_counts_and_not_calls() -> None:
    """The one whose calls cost ten times as much gets through with about a tenth of them, and is never left out."""
    counts = served(FairQueue(), {"dear": 0.1, "cheap": 0.01}, 20, at_once=2)
    assert 0.8 <= counts["dear"] * 0.1 / (counts["cheap"] * 0.01) <= 1.25


def test_one_that_hung_is_not_kept_out_for_ever() -> None:
    queue: FairQueue[int] = FairQueue()
    queue.put("hung", 0)
    assert queue.take() is not None
    queue.settle("hung", 3600)
    queue.put("hung", 1)
    counts: Counter[str] = Counter()
    queue.put("other", 0)
    for _ in range(200):
        taken = queue.take()
        assert taken is not None
        counts[taken[0]] += 1
        queue.settle(taken[0], 0.01)
        queue.put(taken[0], 0)
    assert counts["hung"] > 20


def test_a_job_that_was_away_has_saved_nothing() -> None:
    queue: FairQueue[int] = FairQueue()
    queue.put("away", 0)
    assert queue.take() is not None
    queue.settle("away", 0.001)
    served(queue, {"busy": 0.01}, 5)
    counts: Counter[str] = Counter()
    for name in ("away", "away", "busy"):
        queue.put(name, 0)
    for _ in range(20):
        taken = queue.take()
        assert taken is not None
        counts[taken[0]] += 1
        queue.settle(taken[0], 0.01)
        queue.put(taken[0], 0)
    assert counts["away"] <= 11


def test_calls_of_one_job_come_in_order() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(3):
        queue.put("a", number)
    assert [queue.take() for _ in range(4)] == [("a", 0), ("a", 1), ("a", 2), None]


def test_a_job_whose_calls_wait_already_is_sent_away_and_others_are_not() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(MOST_WAITING):
        queue.put("a", number)
    with pytest.raises(TooMany, match="wait already"):
        queue.put("a", 9)
    queue.put("b", 0)
    assert len(queue) == MOST_WAITING + 1


def test_what_many_jobs_leave_behind_is_bounded() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(500):
        queue.put(f"job-{number}", 0)
        assert queue.take() is not None
        queue.settle(f"job-{number}", 1.0)
    assert len(queue._jobs) <= 100


def test_what_is_wanted_no_more_is_not_taken() -> None:
    queue: FairQueue[str] = FairQueue()
    for name, item in (("a", "1"), ("a", "2"), ("b", "3")):
        queue.put(name, item)
    for name, item in (("a", "1"), ("b", "3"), ("b", "3"), ("c", "4")):
        queue.drop(name, item)
    assert len(queue) == 1
    assert queue.take() == ("a", "2")
    queue.drop("a", "2")
    queue.settle("a", 0.01)
    assert queue.take() is None


def test_what_is_computed_along_with_another_is_taken_from_any_job_and_settled_as_any_other() -> None:
    queue: FairQueue[int] = FairQueue()
    for name, item in (("a", 1), ("b", 2), ("b", 3), ("c", 3)):
        queue.put(name, item)
    assert queue.take() == ("a", 1)
    assert queue.take_along(lambda item: item == 3) == ("c", 3), "only what comes next of its job"
    assert queue.take_along(lambda item: item == 3) is None
    for name in ("a", "c"):
        queue.settle(name, 0.5)
    assert [queue.take(), queue.take(), queue.take()] == [("b", 2), ("b", 3), None]
