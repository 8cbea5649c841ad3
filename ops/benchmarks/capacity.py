"""What a given number of workers gets done: against the ideal schedule, and with ever more jobs queued.

`ops/bench capacity [--jobs N] [--queued N,N,…]`

Makespan: jobs whose stages take known times, all submitted at once, against the schedule in which nothing else takes
time. Twice: the stages burn CPU, with as many BIE workers as there are cores and nothing to burn in the other stages,
since more would only slow each other down and be measured in place of the product; and they wait, as a stage
does that has its cores on other hosts, with more workers than cores here. While they burn, every cycle that the
orchestration takes is taken from them, so the ratio shows it.

Cost per job: see backlog.py.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.bootstrap.container import Container, assemble
from app.kit.clock import from_text
from ops.benchmarks import backlog, ideal_schedule
from ops.benchmarks.load import burn, submit
from tests.harness.deployment import Deployment

JOBS, QUEUED, AIM_RATIO = 50, (10, 100, 1_000, 10_000), 1.05
STAGES = ("onnx", "bie", "nef")
WORKERS = (2, 6, 2)
WAITS_S = ((0.05, 0.15), (0.4, 1.2), (0.05, 0.15))
"""The shortest and longest seconds of each stage."""
BURNS_S = ((0.0, 0.0), (0.2, 0.6), (0.0, 0.0))
STALLED_S, ASK_EVERY_S = 60, 0.25


def main(arguments: Sequence[str] = ()) -> None:
    parsed = _parse(arguments)
    cores = len(os.sched_getaffinity(0))
    _makespan("burning CPU", parsed.jobs, BURNS_S, (1, cores, 1), MODELMILL_BENCH_BURN="1")
    _makespan("waiting", parsed.jobs, WAITS_S, WORKERS)
    backlog.measure(parsed.queued)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ops/bench capacity")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"of the makespan; default {JOBS}")
    parser.add_argument("--queued", type=_counts, default=QUEUED, help="depths of the queue; default 10,100,1000,10000")
    return parser.parse_args(arguments)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(word) for word in text.split(",")))


def _makespan(
    what: str, jobs: int, ranges: Sequence[tuple[float, float]], workers: Sequence[int], **environment: str
) -> None:
    chance = random.Random(1)
    times = [tuple(round(chance.uniform(*bounds), 3) for bounds in ranges) for _ in range(jobs)]
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder)) as deployment:
        deployment.env |= environment
        deployment.workers("ops.benchmarks.busy_actors", done=1, **dict(zip(STAGES, workers, strict=True)))
        container = assemble(deployment.settings())
        _run(container, [(0.0, 0.0, 0.0)] * max(workers))  # the first job of a worker is slower than all that follow
        deployment.until_quiet()
        measured = _run(container, times)
    ideal = ideal_schedule.makespan(times, workers)
    counts = ", ".join(f"{count} {stage}" for stage, count in zip(STAGES, workers, strict=True))
    print(f"\n{jobs} jobs, stages {what}, workers: {counts}")
    print(f"makespan {measured:.3f} s, ideal {ideal:.3f} s, ratio {measured / ideal:.3f}, aim at most {AIM_RATIO:.2f}")
    if "MODELMILL_BENCH_BURN" in environment:
        plain = _plain([seconds[1] for seconds in times], workers[1])
        print(f"the same burnt by as many plain processes: {plain:.3f} s, {plain / ideal:.3f} of the ideal")


def _plain(times: Sequence[float], count: int) -> float:
    """Returns the seconds of processes that burn one time after the other, and do nothing else."""
    with multiprocessing.Pool(count) as pool:
        pool.map(burn, [0.0] * count)
        started = time.perf_counter()
        pool.map(burn, times, chunksize=1)
        return time.perf_counter() - started


def _run(container: Container, times: Sequence[Sequence[float]]) -> float:
    """Returns the seconds from the first submission to the last end, from the records: polling would cost CPU."""
    job_ids = [submit(container, name=" ".join(map(str, seconds))) for seconds in times]
    deadline = time.monotonic() + sum(map(sum, times)) + STALLED_S
    while container.redis.zcard(container.store.records.active_index):
        if time.monotonic() > deadline:
            raise SystemExit("the jobs do not come to their end; does the machine do something else?")
        time.sleep(ASK_EVERY_S)
    records = container.store.several(job_ids)
    return _seconds(max(r.finished_at or "" for r in records)) - _seconds(min(r.created_at for r in records))


def _seconds(text: str) -> float:
    return from_text(text).timestamp()
