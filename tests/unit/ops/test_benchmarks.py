"""What the measurements compute: a wrong ratio would be believed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ops.benchmarks import ideal_schedule
from ops.benchmarks.backlog import slope
from ops.benchmarks.peers.measurement import Round
from ops.benchmarks.peers.systems import MODELMILL, RAW
from ops.benchmarks.peers.table import MIB, lines, row
from ops.benchmarks.tracing import parse


@pytest.mark.parametrize(
    ("times", "workers", "seconds"),
    [
        ([(1, 2, 3)], (1, 1, 1), 6),  # one job passes through
        ([(1,)] * 10, (3,), 4),  # ten jobs of one second on three workers take four turns
        ([(1, 1, 1)] * 4, (1, 1, 1), 6),  # a pipeline: fill it, then one a second
        ([(3, 1), (1, 1)], (2, 1), 4),  # who is ready first goes first, whoever was submitted first
        ([(5,), (1,), (1,), (1,)], (2,), 5),  # short ones pass a long one by
        ([], (1,), 0),
    ],
)
def test_the_ideal_schedule_lets_no_worker_wait_while_a_job_is_ready(
    times: Sequence[Sequence[float]], workers: Sequence[int], seconds: float
) -> None:
    assert ideal_schedule.makespan(times, workers) == seconds


def test_the_ideal_schedule_lies_between_what_must_be_done_and_one_after_another() -> None:
    chance = random.Random(7)
    for _ in range(50):
        workers = [chance.randint(1, 4) for _ in range(3)]
        times = [[chance.uniform(0, 2) for _ in workers] for _ in range(chance.randint(1, 30))]
        ideal_s = ideal_schedule.makespan(times, workers)
        busiest = max(sum(job[stage] for job in times) / count for stage, count in enumerate(workers))
        assert max(busiest, *map(sum, times)) <= ideal_s + 1e-9
        assert ideal_s <= sum(map(sum, times)) + 1e-9


def _round(latencies_ms: list[float], jobs_per_s: float) -> Round:
    return Round(
        latencies_ms,
        jobs_per_s,
        memory_bytes=50 * MIB,
        cpu_share=0.02,
        cpu_ms_alone=5.0,
        cpu_ms_queued=2.5,
        processes=4,
    )


def test_the_row_of_a_system_takes_all_its_jobs_together_and_the_middle_round() -> None:
    table_row = row("saq", [_round([1.0, 2.0], 10), _round([3.0, 100.0], 30), _round([4.0], 500)], at_once=500)
    assert (table_row.p50_ms, table_row.p95_ms, table_row.jobs_per_s) == (3.0, 100.0, 30)
    assert (table_row.memory_mib, table_row.cpu_percent, table_row.jobs) == (50, 2.0, "5 / 500")


def test_the_product_is_compared_with_the_limit_and_with_the_best_peer_in_each_figure() -> None:
    rows = [
        row(MODELMILL, [_round([6.0], 600)], 500),
        row(RAW, [_round([4.0], 1000)], 500),
        row("quick", [_round([5.0], 100)], 500),
        row("broad", [_round([50.0], 400)], 500),
    ]
    limit, peers = lines(rows, {})[-2:]
    assert "p50 1.50 times" in limit and "jobs/s 0.60 times" in limit
    assert "p50 1.20 times quick's" in peers and "jobs/s 1.50 times broad's" in peers


def test_a_system_that_failed_is_in_the_table_with_the_reason() -> None:
    table_lines = lines([row("saq", [_round([1.0], 1)], 500)], {"prefect": "not installed: no such version"})
    assert [line for line in table_lines if line.startswith("prefect")] == [
        "prefect          failed: not installed: no such version"
    ]
    assert not [
        line for line in table_lines if line.startswith("against")
    ]  # without the product there is nothing to compare


def test_the_slope_is_what_a_tenfold_queue_adds() -> None:
    assert slope([10, 100, 1000], [5.0, 5.0, 5.0]) == pytest.approx(0)
    assert slope([10, 100, 1000], [5.0, 7.0, 9.0]) == pytest.approx(2)
    assert slope([10], [5.0]) == 0


def test_a_request_to_redis_is_taken_apart_into_its_commands() -> None:
    packed = b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n*1\r\n$4\r\nPING\r\n"
    assert parse(packed) == [[b"GET", b"a\r\nb"], [b"PING"]]
