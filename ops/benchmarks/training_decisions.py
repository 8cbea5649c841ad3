"""`ops/bench training` decisions: how long the scheduler of training thinks about a long line.

The cluster has 32 nodes of 8 GPUs. The line is of every size, mixed. Three moments: the cluster is empty and many go at
once; it is full and the head waits; it is full and nobody in the line blocks the others, so that each is looked at.
"""

from __future__ import annotations

import statistics
import time

from app.kit.clock import now, to_text
from app.training.model import Claim, Demand, Held, Node
from app.training.model.gang import Queued, decide

NODES, GPUS, CPUS = 32, 8, 26
ROUNDS = 20
AIMS_MS = {500: 10, 10_000: 50}
SIZES = ((1, 8), (1, 1), (2, 8), (1, 4), (4, 2), (1, 2))
"""(nodes, GPUs of each)"""


def measure() -> list[tuple[str, str, str]]:
    """(what, the slowest of nine in ten in CPU time, the aim)"""
    held = [_holder(number) for number in range(NODES)]
    moments: tuple[tuple[str, list[Held], float, bool], ...] = (
        ("empty cluster", [], GPUS, False),
        ("full cluster, strict line", held, 0, False),
        ("full cluster, all with backfill", held, 0, True),
    )
    rows = []
    for length, aim_ms in AIMS_MS.items():
        for what, active, free, backfill in moments:
            milliseconds, admitted = _decide_ms(_line(length, backfill), active, _nodes(free))
            label = f"decision: {length} queued, {NODES} nodes, {what}, {admitted} go"
            rows.append((label, f"{milliseconds:.1f} ms", f"< {aim_ms} ms"))
    return rows


def _decide_ms(line: list[Queued], held: list[Held], nodes: list[Node]) -> tuple[float, int]:
    moment, took_ms, admitted = to_text(now()), list[float](), 0
    for _ in range(ROUNDS):
        began = time.process_time()
        admitted = len(decide(line, held, nodes, now=moment, may_start=None).admitted)
        took_ms.append(1000 * (time.process_time() - began))
    return statistics.quantiles(took_ms, n=10)[-1], admitted


def _line(length: int, backfill: bool) -> list[Queued]:
    return [Queued(f"task-{number}", _demand(*SIZES[number % len(SIZES)]), backfill) for number in range(length)]


def _demand(nodes: int, gpus: int) -> Demand:
    return Demand(nodes, gpus, 3 * gpus, driver_cpus=1)


def _holder(number: int) -> Held:
    name = f"node-{number:03}"
    return Held(f"active-{number}", _demand(1, GPUS), Claim({name: GPUS}, {name: 3 * GPUS}))


def _nodes(free_gpus: float) -> list[Node]:
    free_cpus = CPUS if free_gpus else 1
    return [Node(f"node-{at:03}", f"10.0.0.{at}", GPUS, free_gpus, CPUS, free_cpus) for at in range(NODES)]
