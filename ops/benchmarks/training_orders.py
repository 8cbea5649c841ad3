"""`ops/bench training --only orders`: orders of the queue on a trace, beside simple models of Slurm and Tiresias.

The trace is drawn, with the shape that the public ones have (Philly, Helios): most tasks take one GPU, durations are
spread over orders of magnitude, days differ from nights, few users submit most. With `--trace FILE` it is that of
Philly, in the form of https://github.com/petuum/adaptdl (branch osdi21-artifact, simulator/traces/philly.csv): every
tenth task of two weeks, its virtual cluster as its user, and time limits that are drawn, as the trace has none.

Here the scheduler's own functions decide. Slurm: multifactor priority by fair share and age, with conservative
backfill, in which each of the first hundred has a reservation. Tiresias: two queues by attained GPU time, whose running
tasks are preempted and moved for nothing, so what it reaches here is a bound.
"""

from __future__ import annotations

import csv
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from app.training.model.queue_order import QueuePolicy
from app.training.model.simulation import Cluster, quantile, share_error, simulate
from app.training.model.trace import TraceTask

CLUSTER = Cluster(nodes=8, gpus_per_node=8)
TASKS, USERS, SEED, DAYS = 2000, 20, 7, 5
SIZES = ((1, 0.70), (2, 0.10), (4, 0.09), (8, 0.08), (16, 0.03))
"""(GPUs, share of the tasks)"""
MEDIAN_S, SIGMA, LONGEST_S = 900.0, 1.6, 6 * 3600.0
LOAD = 0.9
"""Share of the cluster that the trace asks for."""
PHILLY_BEGIN, PHILLY_DAYS, PHILLY_STRIDE = "2017-10-09", 14, 10
TESTED = 100
HALF_LIFE_S = 7 * 86400.0
AGE_S, AGE_WEIGHT = 7 * 86400.0, 0.2
LEAST_SERVED = 3600.0
"""GPU seconds until which a task is in the first queue of Tiresias."""
Row = tuple[str, str, str]


def measure(file: Path | None = None) -> list[Row]:
    """file: the trace of Philly; None: the drawn one."""
    trace = drawn_trace() if file is None else philly_trace(file)
    rows = []
    for label, policy, does_backfill in (
        ("strict FIFO (the default)", QueuePolicy.FIFO, False),
        ("FIFO, EASY backfill", QueuePolicy.FIFO, True),
        ("fair share, EASY backfill", QueuePolicy.FAIR, True),
    ):
        result = simulate(trace, CLUSTER, policy, does_backfill=does_backfill)
        figures = (result.wait_p50_s, result.wait_p95_s, result.utilization, result.share_error)
        rows.append(_row(label, figures, len(trace)))
    for label, peer in (("as Slurm", Slurm()), ("as Tiresias", Tiresias())):
        rows.append(_row(label, Replay(trace, peer).run(), len(trace)))
    return rows


def _row(label: str, figures: tuple[float, float, float, float], tasks: int) -> Row:
    p50_s, p95_s, utilization, error = figures
    text = f"{p50_s / 60:.0f} min, {p95_s / 60:.0f} min, {utilization:.1%}, {error:.3f}"
    return f"{tasks} tasks: {label}: wait p50, p95, utilization, share error", text, ""


def drawn_trace(seed: int = SEED) -> list[TraceTask]:
    """Arrivals of DAYS days whose GPU time is LOAD of the cluster's."""
    dice, tasks = random.Random(seed), []
    weights = [1 / rank for rank in range(1, USERS + 1)]
    for number, at_s in enumerate(_arrivals(dice)):
        gpus = dice.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]
        duration_s = min(dice.lognormvariate(math.log(MEDIAN_S), SIGMA), LONGEST_S)
        user = f"user-{dice.choices(range(USERS), weights)[0]:02}"
        tasks.append((f"task-{number:05}", user, at_s, gpus, duration_s, dice.uniform(1.2, 4)))
    total = sum(gpus * duration_s for _, _, _, gpus, duration_s, _ in tasks)
    factor = LOAD * CLUSTER.gpus * DAYS * 86400 / total
    return [
        TraceTask(name, user, at_s, gpus, duration_s * factor, math.ceil(duration_s * factor * limit))
        for name, user, at_s, gpus, duration_s, limit in tasks
    ]


def philly_trace(file: Path, seed: int = SEED) -> list[TraceTask]:
    """Every tenth task of two weeks."""
    dice, begin, tasks = random.Random(seed), datetime.fromisoformat(PHILLY_BEGIN), []
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            at_s = (datetime.fromisoformat(row["timestamp"]) - begin).total_seconds()
            if 0 <= at_s < PHILLY_DAYS * 86400:
                tasks.append((at_s, row["cluster"], int(row["num_gpus"]), float(row["duration"])))
    return [
        TraceTask(f"task-{number:05}", user, at_s, gpus, duration_s, math.ceil(duration_s * dice.uniform(1.2, 4)))
        for number, (at_s, user, gpus, duration_s) in enumerate(sorted(tasks)[::PHILLY_STRIDE])
        if gpus <= CLUSTER.gpus
    ]


def _arrivals(dice: random.Random) -> list[float]:
    """Three times as many at noon as at midnight."""
    times: list[float] = []
    while len(times) < TASKS:
        at_s = dice.uniform(0, DAYS * 86400)
        if dice.random() < (2 - math.cos(2 * math.pi * at_s / 86400)) / 3:
            times.append(at_s)
    return sorted(times)


def placed(task: TraceTask, free: Sequence[int]) -> list[int] | None:
    """The free GPUs of each node after this task has its own; None if it does not fit. Larger ones take whole nodes."""
    nodes = max(1, -(-task.gpus // CLUSTER.gpus_per_node))
    each, left = -(-task.gpus // nodes), list(free)
    for _ in range(nodes):
        at = max(range(len(left)), key=left.__getitem__)
        if left[at] < each:
            return None
        left[at] -= each
    return left


@dataclass
class Turn:
    """A task of which something is left to do."""

    task: TraceTask
    left_s: float
    since_s: float | None = None
    """Since when it runs; None while it waits."""
    taken: list[int] = field(default_factory=list)
    """GPUs of each node."""

    @property
    def attained(self) -> float:
        return self.task.gpus * (self.task.duration_s - self.left_s)


class Slurm:
    """Starts what has a reservation for now."""

    does_move = False

    def __init__(self) -> None:
        self._used: dict[str, float] = defaultdict(float)
        self._at_s = 0.0

    def wakes_s(self, turns: Iterable[Turn], now_s: float) -> Iterable[float]:
        return ()

    def account(self, use: Mapping[str, float], now_s: float) -> None:
        decay = 0.5 ** ((now_s - self._at_s) / HALF_LIFE_S)
        self._used = defaultdict(float, {user: used * decay for user, used in self._used.items()})
        for user, used in use.items():
            self._used[user] += used
        self._at_s = now_s

    def chosen(self, turns: Sequence[Turn], now_s: float) -> list[Turn]:
        running = [turn for turn in turns if turn.since_s is not None]
        waiting = sorted(
            (turn for turn in turns if turn.since_s is None), key=lambda turn: -self._priority(turn, now_s)
        )
        steps = [(now_s, 0), *((max(_ends_by(turn), now_s + 1), turn.task.gpus) for turn in running)]
        profile = Profile(CLUSTER.gpus - sum(turn.task.gpus for turn in running), steps)
        starts = []
        for turn in waiting[:TESTED]:
            at_s = profile.earliest(turn.task.gpus, turn.task.limit_s or LONGEST_S)
            profile.reserve(at_s, turn.task.gpus, turn.task.limit_s or LONGEST_S)
            if at_s == now_s:
                starts.append(turn)
        return [*running, *starts]

    def _priority(self, turn: Turn, now_s: float) -> float:
        share = 1 / max(1, len(self._used))
        total = sum(self._used.values()) or 1.0
        age = min((now_s - turn.task.submit_s) / AGE_S, 1)
        return float(2 ** (-self._used[turn.task.user] / total / share) + AGE_WEIGHT * age)


def _ends_by(turn: Turn) -> float:
    assert turn.since_s is not None
    return turn.since_s + (turn.task.limit_s or LONGEST_S)


class Profile:
    """How many GPUs are free from when on."""

    def __init__(self, free: int, freed: Iterable[tuple[float, int]]) -> None:
        self._free: list[tuple[float, int]] = []
        for at_s, gpus in sorted(freed):
            free += gpus
            if self._free and self._free[-1][0] == at_s:
                self._free.pop()
            self._free.append((at_s, free))

    def earliest(self, gpus: int, for_s: float) -> float:
        for place, (at_s, _) in enumerate(self._free):
            if all(free >= gpus for begin_s, free in self._free[place:] if begin_s < at_s + for_s):
                return at_s
        return self._free[-1][0]

    def reserve(self, at_s: float, gpus: int, for_s: float) -> None:
        for edge_s in (at_s, at_s + for_s):
            before = [free for begin_s, free in self._free if begin_s <= edge_s]
            if all(begin_s != edge_s for begin_s, _ in self._free):
                self._free = sorted([*self._free, (edge_s, before[-1])])
        self._free = [
            (begin_s, free - gpus if at_s <= begin_s < at_s + for_s else free) for begin_s, free in self._free
        ]


class Tiresias:
    """Least attained service, in two queues: first come, first served in each."""

    does_move = True

    def wakes_s(self, turns: Iterable[Turn], now_s: float) -> Iterable[float]:
        """When running tasks fall into the second queue."""
        for turn in turns:
            if turn.since_s is not None and turn.attained < LEAST_SERVED:
                yield now_s + (LEAST_SERVED - turn.attained) / turn.task.gpus + 1e-3

    def account(self, use: Mapping[str, float], now_s: float) -> None:
        """It knows no users."""

    def chosen(self, turns: Sequence[Turn], now_s: float) -> list[Turn]:
        return sorted(turns, key=lambda turn: (turn.attained >= LEAST_SERVED, turn.task.submit_s))


class Replay:
    """A trace through a peer's decisions."""

    def __init__(self, trace: Sequence[TraceTask], peer: Slurm | Tiresias) -> None:
        self._trace, self._peer = trace, peer
        self._turns: list[Turn] = []
        self._free = [CLUSTER.gpus_per_node] * CLUSTER.nodes
        self._contended: dict[str, float] = defaultdict(float)
        self._waits_s: list[float] = []

    def run(self) -> tuple[float, float, float, float]:
        """Returns p50 and p95 of the whole wait of a task in seconds, utilization, and share error."""
        arrivals, now_s = list(reversed(self._trace)), self._trace[0].submit_s
        while arrivals or self._turns:
            ends_s = [now_s + turn.left_s for turn in self._turns if turn.since_s is not None]
            next_s = min([*ends_s, *self._peer.wakes_s(self._turns, now_s), *(one.submit_s for one in arrivals[-1:])])
            self._pass(now_s, next_s)
            now_s = next_s
            while arrivals and arrivals[-1].submit_s <= now_s:
                task = arrivals.pop()
                self._turns.append(Turn(task, task.duration_s))
            self._assign(now_s)
        used = sum(task.gpus * task.duration_s for task in self._trace)
        makespan_s = now_s - self._trace[0].submit_s
        error = share_error(self._contended, {task.user for task in self._trace})
        p50_s, p95_s = (quantile(self._waits_s, share) for share in (0.5, 0.95))
        return p50_s, p95_s, used / (CLUSTER.gpus * makespan_s), error

    def _pass(self, now_s: float, next_s: float) -> None:
        use: dict[str, float] = defaultdict(float)
        is_contended = len({turn.task.user for turn in self._turns if turn.since_s is None}) > 1
        for turn in self._turns:
            if turn.since_s is not None:
                turn.left_s -= next_s - now_s
                use[turn.task.user] += turn.task.gpus * (next_s - now_s)
        if is_contended:
            for user, gpu_s in use.items():
                self._contended[user] += gpu_s
        self._peer.account(use, next_s)
        for turn in [turn for turn in self._turns if turn.left_s <= 1e-6]:
            self._turns.remove(turn)
            self._free = [free + taken for free, taken in zip(self._free, turn.taken, strict=True)]
            self._waits_s.append(next_s - turn.task.submit_s - turn.task.duration_s)

    def _assign(self, now_s: float) -> None:
        chosen = self._peer.chosen(self._turns, now_s)
        free = [CLUSTER.gpus_per_node] * CLUSTER.nodes if self._peer.does_move else self._free
        for turn in chosen:
            if turn.since_s is not None and not self._peer.does_move:
                continue
            left = placed(turn.task, free)
            if left is None:
                turn.since_s = None
                continue
            turn.taken = [before - after for before, after in zip(free, left, strict=True)]
            turn.since_s, free = turn.since_s if turn.since_s is not None else now_s, left
        self._free = free
