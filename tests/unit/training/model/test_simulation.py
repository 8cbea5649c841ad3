"""Traces, and what the orders of the queue do to them."""

from __future__ import annotations

import pytest

from app.kit.errors import BadInput
from app.training.model.queue_order import QueuePolicy
from app.training.model.simulation import Cluster, simulate
from app.training.model.trace import TraceTask, read_trace

ONE_NODE = Cluster(1, 8)


def task(name: str, user: str, submit_s: float, gpus: int, duration_s: float, limit_s: int | None = None) -> TraceTask:
    return TraceTask(name, user, submit_s, gpus, duration_s, limit_s)


def test_a_trace_is_read_by_the_names_of_known_traces() -> None:
    ours = read_trace("user,submit_s,gpus,duration_s,limit_s,priority\nb,5,2,60,120,low\na,0,1,30,,\n")
    assert [(one.user, one.submit_s, one.limit_s, one.priority.value) for one in ours] == [
        ("a", 0, None, "normal"),
        ("b", 5, 120, "low"),
    ]
    theirs = read_trace("job,user,gpu_num,submit_time_s,duration\nx,u1,4,10,99\n")
    assert (theirs[0].gpus, theirs[0].duration_s) == (4, 99)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no column user"),
        ("user,gpus,duration_s\na,1,1\n", "no column submit_s"),
        ("user,submit_s,gpus,duration_s\na,0,1,1\na,0,one,1\n", "Line 3"),
        ("user,submit_s,gpus,duration_s\na,0,-1,1\n", "Line 2"),
        ("user,submit_s,gpus,duration_s\na,nan,1,1\n", "Line 2"),
        (f"user,submit_s,gpus,duration_s\n{'a' * 200_000},0,1,1\n", "line 2"),
        ("user,submit_s,gpus,duration_s,priority\na,0,1,1,urgent\n", "Line 2"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_by_its_line(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        read_trace(text)


def test_waits_and_utilization_are_those_of_the_schedule() -> None:
    result = simulate([task("a", "u", 0, 8, 100), task("b", "u", 0, 8, 50)], ONE_NODE, QueuePolicy.FIFO)
    assert (result.wait_p50_s, result.makespan_s, result.utilization) == (50, 150, 1.0)


def test_backfill_fills_the_gap_before_a_large_task_and_does_not_delay_it() -> None:
    trace = [
        task("half", "u", 0, 4, 100, 100),
        task("whole", "u", 1, 8, 100, 100),
        task("short", "u", 2, 4, 50, 50),
    ]
    strict = simulate(trace, ONE_NODE, QueuePolicy.FIFO)
    filled = simulate(trace, ONE_NODE, QueuePolicy.FIFO, does_backfill=True)
    assert strict.makespan_s == 250
    assert filled.makespan_s == 200
    assert filled.utilization > strict.utilization


def test_fair_shares_divide_the_cluster_where_first_come_first_served_does_not() -> None:
    trace = [
        *(task(f"a{n}", "alice", 0, 8, 100) for n in range(6)),
        *(task(f"b{n}", "bob", 1, 8, 100) for n in range(6)),
    ]
    fifo, fair = (simulate(trace, ONE_NODE, policy) for policy in (QueuePolicy.FIFO, QueuePolicy.FAIR))
    assert fair.share_error < 0.1 < fifo.share_error


def test_what_the_cluster_can_never_hold_is_left_out_and_counted() -> None:
    result = simulate([task("big", "u", 0, 9, 100), task("small", "u", 0, 1, 10)], ONE_NODE, QueuePolicy.FIFO)
    assert (result.impossible, result.makespan_s) == (1, 10)


def test_an_empty_trace_has_an_outcome() -> None:
    assert simulate([], ONE_NODE, QueuePolicy.FAIR).makespan_s == 0
