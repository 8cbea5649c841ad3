"""Simulates a queue order on a trace: the scheduler's own decisions on a simulated cluster. Pure."""

from __future__ import annotations

import heapq
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from app.kit.clock import to_text
from app.training.model.capacity import Node
from app.training.model.demand import Claim, Demand, Held
from app.training.model.gang import AdmissionRules, Queued, decide
from app.training.model.preemption import Preemptible
from app.training.model.queue_order import QueuePolicy, Shares, Use, compute_decayed_use, in_order
from app.training.model.task import Priority
from app.training.model.trace import TraceTask

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Cluster:
    nodes: int = 4
    gpus_per_node: int = 8
    cpus_per_node: int = 0
    """0: those of tasks are not counted."""

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class SimulationResult:
    """Of one order over a trace."""

    wait_p50_s: float
    wait_p95_s: float
    utilization: float
    """Share of the GPUs' time that was used, from the first submission to the last end."""
    share_error: float
    """Half the sum over users of |share of used GPU time − equal share| while at least two of them wait: 0 is fair."""
    makespan_s: float
    impossible: int
    """Tasks that the cluster could never hold; omitted."""
    preemptions: int = 0
    """How often a task was preempted."""
    passed: int = 0
    """How many tasks went ahead of others, as they needed nothing that these waited for."""
    starts_s: Mapping[str, float] = field(default_factory=dict)
    """When each task started first, by name."""


def simulate(
    trace: Sequence[TraceTask],
    cluster: Cluster,
    policy: QueuePolicy,
    *,
    does_backfill: bool = False,
    preempted: Collection[Priority] = (),
    checkpoint_s: float = 1800,
) -> SimulationResult:
    """Run a trace by a queue policy, event by event: at each submission and each end the scheduler decides once.

    Args:
        trace: tasks with their times of submission and how long they run; what the cluster can never hold is omitted
            and counted.
        does_backfill: a small task may go before a big one that it does not delay.
        preempted: priorities whose tasks give way to more urgent ones at their next checkpoints, and go on there.
        checkpoint_s: seconds between two checkpoints of a task.
    """
    possible = [task for task in trace if _could_fit(demand_of(task, cluster), cluster)]
    rules = _Rules(policy, does_backfill, preempted, checkpoint_s)
    return _Simulation(possible, cluster, rules).run(len(trace) - len(possible))


@dataclass(frozen=True)
class _Rules:
    policy: QueuePolicy
    does_backfill: bool
    preempted: Collection[Priority]
    checkpoint_s: float


@dataclass
class _RunningTask:
    task: TraceTask
    start_s: float
    claim: Claim
    end_s: float
    gives_way: bool = False
    """It ends at its next checkpoint, and waits again."""


class _Simulation:
    def __init__(self, trace: Sequence[TraceTask], cluster: Cluster, rules: _Rules) -> None:
        self.trace = trace
        self.cluster = cluster
        self.rules = rules
        self.places = {task.name: place for place, task in enumerate(trace)}
        self.ends: list[tuple[float, str]] = []
        """When what runs ends; what gives way has two entries, of which the earlier counts."""
        self.preemptions = self.passed = 0
        self.starts_s: dict[str, float] = {}
        self.free_gpus = [cluster.gpus_per_node] * cluster.nodes
        self.free_cpus = [float(cluster.cpus_per_node)] * cluster.nodes
        self.running: dict[str, _RunningTask] = {}
        self.waiting: dict[str, TraceTask] = {}
        self.waits_s: dict[str, float] = defaultdict(float)
        """By task, of all its turns."""
        self.since_s: dict[str, float] = {}
        """Since when those wait that gave way."""
        self.uses: list[Use] = []
        self.contended: dict[str, float] = defaultdict(float)

    def run(self, impossible: int) -> SimulationResult:
        arrivals = iter(self.trace)
        next_task = next(arrivals, None)
        now_s = next_task.submit_s if next_task else 0.0
        while next_task is not None or self.ends:
            before_s, now_s = (
                now_s,
                min(next_task.submit_s if next_task else float("inf"), self.ends[0][0] if self.ends else float("inf")),
            )
            self._account(now_s - before_s)
            while self.ends and self.ends[0][0] <= now_s:
                end_s, name = heapq.heappop(self.ends)
                if name in self.running and self.running[name].end_s == end_s:
                    self._end(name, now_s)
            while next_task is not None and next_task.submit_s <= now_s:
                self.waiting[next_task.name] = next_task
                next_task = next(arrivals, None)
            self._decide(now_s)
        return self._build_result(now_s, impossible)

    def _decide(self, now_s: float) -> None:
        moment = BEGIN + timedelta(seconds=now_s)
        held = [Held(name, demand_of(one.task, self.cluster), one.claim) for name, one in self.running.items()]
        ends = {
            name: BEGIN + timedelta(seconds=one.start_s + one.task.limit_s)
            for name, one in self.running.items()
            if one.task.limit_s is not None
        }
        entries = [
            Queued(
                task.name,
                demand_of(task, self.cluster),
                user=task.user,
                run_limit_s=task.limit_s,
                priority=task.priority,
            )
            for task in sorted(self.waiting.values(), key=lambda task: self.places[task.name])
        ]
        policy = self.rules.policy
        shares = Shares(compute_decayed_use(self._list_uses(now_s), moment)) if policy is QueuePolicy.FAIR else None
        rules = AdmissionRules(
            does_backfill=self.rules.does_backfill,
            ends=ends,
            preemptible=[
                Preemptible(name, one.task.priority, BEGIN + timedelta(seconds=one.start_s), one.gives_way)
                for name, one in self.running.items()
                if one.task.priority in self.rules.preempted
            ],
        )
        order = in_order(entries, policy, shares)
        decision = decide(order, held, self._list_nodes(), now=to_text(moment), may_start=None, rules=rules)
        self.passed += len(decision.passed)
        for name in decision.admitted:
            self._start(name, now_s)
        for name in decision.giving_way:
            self._give_way(name, now_s)

    def _give_way(self, name: str, now_s: float) -> None:
        """At its next checkpoint, unless it ends before."""
        one, every_s = self.running[name], self.rules.checkpoint_s
        at_s = one.start_s + (math.floor((now_s - one.start_s) / every_s) + 1) * every_s
        if not one.gives_way and at_s < one.end_s:
            one.gives_way, one.end_s = True, at_s
            heapq.heappush(self.ends, (at_s, name))

    def _list_uses(self, now_s: float) -> list[Use]:
        now = BEGIN + timedelta(seconds=now_s)
        running = (
            Use(one.task.user, one.task.gpus, BEGIN + timedelta(seconds=one.start_s), now)
            for one in self.running.values()
        )
        return [*self.uses, *running]

    def _list_nodes(self) -> list[Node]:
        gpus, cpus = self.cluster.gpus_per_node, self.cluster.cpus_per_node
        free = zip(self.free_gpus, self.free_cpus, strict=True)
        return [
            Node(_make_node_id(at), "", gpus, free_gpus, cpus, free_cpus)
            for at, (free_gpus, free_cpus) in enumerate(free)
        ]

    def _start(self, name: str, now_s: float) -> None:
        task = self.waiting.pop(name)
        demand = demand_of(task, self.cluster)
        gpus: dict[str, float] = defaultdict(float)
        cpus: dict[str, float] = defaultdict(float)
        for _ in range(demand.nodes if demand.gpus or demand.cpus else 0):
            at = max(
                range(self.cluster.nodes),
                key=lambda at: (self.free_cpus[at] >= demand.cpus_per_node, self.free_gpus[at], self.free_cpus[at]),
            )
            self.free_gpus[at] -= demand.gpus_per_node
            self.free_cpus[at] -= demand.cpus_per_node
            gpus[_make_node_id(at)] += demand.gpus_per_node
            cpus[_make_node_id(at)] += demand.cpus_per_node
        self.running[name] = _RunningTask(task, now_s, Claim(dict(gpus), dict(cpus)), now_s + task.duration_s)
        heapq.heappush(self.ends, (now_s + task.duration_s, name))
        self.starts_s.setdefault(name, now_s)
        self.waits_s[name] += now_s - self.since_s.pop(name, task.submit_s)

    def _end(self, name: str, now_s: float) -> None:
        one = self.running.pop(name)
        for node_id, gpus in one.claim.gpus.items():
            self.free_gpus[int(node_id[1:])] += int(gpus)
        for node_id, cpus in one.claim.cpus.items():
            self.free_cpus[int(node_id[1:])] += cpus
        start, end = (BEGIN + timedelta(seconds=at) for at in (one.start_s, now_s))
        self.uses.append(Use(one.task.user, one.task.gpus, start, end))
        if one.gives_way:
            self.preemptions += 1
            self.since_s[name] = now_s
            self.waiting[name] = replace(one.task, duration_s=one.task.duration_s - (now_s - one.start_s))

    def _account(self, seconds: float) -> None:
        """While several users wait, who holds the GPUs?"""
        if len({task.user for task in self.waiting.values()}) < 2:
            return
        for one in self.running.values():
            self.contended[one.task.user] += one.task.gpus * seconds

    def _build_result(self, end_s: float, impossible: int) -> SimulationResult:
        begin_s = self.trace[0].submit_s if self.trace else 0.0
        used = sum(use.gpus * (use.end - use.start).total_seconds() for use in self.uses)
        makespan_s = end_s - begin_s
        return SimulationResult(
            quantile(list(self.waits_s.values()), 0.5),
            quantile(list(self.waits_s.values()), 0.95),
            used / (self.cluster.gpus * makespan_s) if makespan_s else 0.0,
            share_error(self.contended, {task.user for task in self.trace}),
            makespan_s,
            impossible,
            self.preemptions,
            self.passed,
            self.starts_s,
        )


def demand_of(task: TraceTask, cluster: Cluster) -> Demand:
    """Whole nodes where it is larger than one; traces do not say more."""
    nodes = max(1, -(-task.gpus // cluster.gpus_per_node))
    return Demand(nodes, -(-task.gpus // nodes), math.ceil(task.cpus / nodes) if cluster.cpus_per_node else 0)


def _could_fit(demand: Demand, cluster: Cluster) -> bool:
    fits = demand.gpus_per_node <= cluster.gpus_per_node and demand.cpus_per_node <= cluster.cpus_per_node
    return (fits and demand.nodes <= cluster.nodes) or (not demand.gpus and not demand.cpus)


def _make_node_id(at: int) -> str:
    return f"n{at:04}"


def quantile(values: Sequence[float], share: float) -> float:
    """Of any number of values; of none it is 0."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def share_error(contended: Mapping[str, float], users: Iterable[str]) -> float:
    """As in SimulationResult.

    Args:
        contended: GPU seconds that each user held while several waited.
        users: All of the trace.
    """
    names, total = set(users), sum(contended.values())
    if not total or len(names) < 2:
        return 0.0
    return sum(abs(contended.get(user, 0.0) / total - 1 / len(names)) for user in names) / 2
