"""One tick: sync with Ray, admit tasks for which there is room, record why the others wait, copy logs, and delete
checkpoints that are neither among the last nor among the best, for tasks with a limit.

It can be interrupted between any two steps and repeated. If the Ray of a cluster does not answer, none of its tasks
changes its state; the next tick queries it again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from app.kit.clock import from_text, to_text
from app.kit.redis.leader import Watch
from app.training import store
from app.training.model import Attempt, State, Task, WaitingCode, WaitingReason
from app.training.model.clock_steps import LEAST, ClockSteps
from app.training.model.clusters import ANY, ClusterState, decide_on_clusters
from app.training.model.gang import AdmissionRules, Decision, Queued
from app.training.model.preemption import Preemptible
from app.training.model.queue_order import HALF_LIFE_S, QueuePolicy, Shares, compute_decayed_use, in_order
from app.training.service.cluster import ClusterPicture, ClusterView, FirstInLine
from app.training.service.curves import CurveReader
from app.training.service.options import TrainingOptions
from app.training.service.scheduling.admission import as_queued, begin, read_queue, write_reason_for_all, write_reasons
from app.training.service.scheduling.checkpoint_limits import prune
from app.training.service.scheduling.context import Allocation, SchedulerContext
from app.training.service.scheduling.followed_cluster import FollowedCluster, isolate
from app.training.service.scheduling.preemption_steps import ask_to_give_way
from app.training.service.scheduling.rung_watch import RungWatch, WatchedTask
from app.training.service.scheduling.sweep_steps import collect_watched_tasks, follow_sweep, read_progress
from app.training.service.submission import TaskSubmission
from app.training.spec.environments import EnvironmentSpec
from app.training.store import QueueEntry

SHOWN_ORDER = 2000
"""Positions in the queue that users see."""
USE_READ_AFTER, USE_HALF_LIVES = timedelta(minutes=1), 4
logger = logging.getLogger(__name__)
FOR_ROOM = frozenset({WaitingCode.GPUS, WaitingCode.WHOLE_NODES, WaitingCode.CPUS, WaitingCode.RESOURCES})


class Scheduler:
    """Used by one thread.

    Args:
        context: With the default cluster.
        picture: Where the snapshots of the clusters are written.
        others: With each further cluster.
        steady: Seconds by a clock that nobody sets.
    """

    def __init__(
        self,
        context: SchedulerContext,
        picture: ClusterPicture,
        others: Sequence[SchedulerContext] = (),
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.context = context
        self.clusters = [FollowedCluster(each, picture, is_alone=not others) for each in (context, *others)]
        self._use: tuple[datetime, Shares] | None = None
        self._curves = CurveReader(context.homes)
        self._rungs = RungWatch(self._curves)
        self._began_at = ""
        self._steady = steady
        self._steps = ClockSteps()
        self._submission = TaskSubmission(
            context.options, context.database, context.homes, lambda *_: None, context.environments, lambda _: ()
        )

    def tick(self, now: datetime, watch: Watch = lambda: None) -> bool:
        """Returns whether anything is in transition, just started or told to stop. Errors of watch are passed on.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        self._began_at = self._began_at or to_text(now)
        step = self._steps.note(now, self._steady())
        if step is not None:
            logger.warning("The clock was set by %.0f s; limits of tasks do not count that.", step.by.total_seconds())
        active = self._read_active()
        for cluster in self.clusters:
            cluster.look(active[cluster.name], now, watch, self._steps)
        self._follow_sweeps()
        queue = read_queue(self.context)
        environments = self.context.environments.by_name() if queue else {}
        places = {entry.task_id: self._list_places(entry, environments) for entry in queue}
        decisions = self._admit(queue, places, environments)
        self._explain_silence(queue, places)
        for cluster in self.clusters:
            cluster.show(self._build_view(cluster, queue, places, decisions.get(cluster.name, Decision())))
        answering = [cluster for cluster in self.clusters if not cluster.is_away]
        for cluster in answering:
            cluster.copy_logs()
            cluster.measure()
            self._prune_checkpoints(cluster, [task for task, _ in active[cluster.name]])
        states = [allocation.task.state for cluster in answering for allocation in cluster.allocations]
        return any(state is not State.RUNNING for state in states)

    def has_news(self) -> bool:
        """Whether there is something to decide before the next tick is due."""
        return self._rungs.has_reached()

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.close()

    def _follow_sweeps(self) -> None:
        """Before tasks are admitted: what is added may start in the same tick."""
        tick = self.clusters[0].tick
        stopped: set[str] = set()
        watched: dict[str, WatchedTask] = {}
        for progress in read_progress(self.context):
            tick.watch()
            with isolate(progress.sweep.sweep_id):
                followed = follow_sweep(self.context, self._submission, self._curves, progress, tick)
                stopped |= followed.stopped.keys() - progress.stopped.keys()
                watched |= collect_watched_tasks(self.context, followed)
        for cluster in self.clusters:
            cluster.stop(stopped)
        self._rungs.watch(watched)

    def _read_active(self) -> Mapping[str, list[tuple[Task, Attempt]]]:
        """By cluster."""
        with self.context.database.read() as conn:
            tasks = store.active(conn) + store.list_released(conn)
            attempts = store.latest_attempts(conn, [task.task_id for task in tasks])
        by_cluster: dict[str, list[tuple[Task, Attempt]]] = defaultdict(list)
        for task in tasks:
            attempt = attempts[task.task_id]
            by_cluster[attempt.cluster].append((task, attempt))
        return by_cluster

    def _list_places(self, entry: QueueEntry, environments: Mapping[str, EnvironmentSpec]) -> Collection[str]:
        """The clusters on which a task may start, as records name them."""
        if entry.cluster != ANY:
            return (entry.cluster,)
        environment = environments.get(entry.environment)
        having = environment.clusters if environment else None
        shown = self.context.options.shown
        return [each.name for each in self.clusters if having is None or shown(each.name) in having]

    def _admit(
        self,
        queue: Sequence[QueueEntry],
        places: Mapping[str, Collection[str]],
        environments: Mapping[str, EnvironmentSpec],
    ) -> Mapping[str, Decision]:
        """What was decided, by cluster; what starts of it has started, where Ray answered."""
        answering = {cluster.name: cluster for cluster in self.clusters if not cluster.is_away}
        if not queue or not answering:
            for cluster in answering.values():
                ask_to_give_way(cluster.context, cluster.allocations, (), cluster.tick)
            return {}
        tick = next(iter(answering.values())).tick
        everywhere = [allocation for cluster in self.clusters for allocation in cluster.allocations]
        enabled = self.context.enabled_of({entry.user for entry in queue})
        latest = to_text(tick.now + timedelta(seconds=self.context.options.retry_interval_s) + LEAST)
        entries = [as_queued(entry, latest) for entry in queue if entry.user in enabled]
        entries = in_order(entries, self.context.options.queue, self._compute_shares(tick.now))
        limits = {name: one.max_gpus for name, one in environments.items() if one.max_gpus is not None}
        most = self.context.options.max_running_tasks
        decisions = decide_on_clusters(
            [(queued, places[queued.task_id]) for queued in entries],
            {name: self._state(cluster, everywhere, limits) for name, cluster in answering.items()},
            now=tick.at,
            active=len(everywhere),
            may_start=most - len(everywhere) if most else None,
        )
        for name, cluster in answering.items():
            ask_to_give_way(cluster.context, cluster.allocations, decisions[name].giving_way, cluster.tick)
            self._begin(cluster, decisions[name])
        self._explain(queue, places, entries, decisions)
        return decisions

    def _state(
        self, cluster: FollowedCluster, everywhere: Sequence[Allocation], limits: Mapping[str, int]
    ) -> ClusterState:
        rules = _build_rules(self.context.options, cluster.allocations, everywhere, limits)
        return ClusterState([allocation.held for allocation in cluster.allocations], cluster.nodes, rules)

    @staticmethod
    def _begin(cluster: FollowedCluster, decision: Decision) -> None:
        with cluster.ray_call():
            for task_id in decision.admitted:
                cluster.tick.watch()
                with isolate(task_id):
                    allocation = begin(cluster.context, task_id, cluster.tick, decision.passed.get(task_id, 0))
                    cluster.allocations += [allocation] if allocation is not None else []

    def _explain(
        self,
        queue: Sequence[QueueEntry],
        places: Mapping[str, Collection[str]],
        entries: Sequence[Queued],
        decisions: Mapping[str, Decision],
    ) -> None:
        """Of tasks of which a cluster answers: why they wait, of several clusters on the first."""
        silent = {cluster.name for cluster in self.clusters if cluster.is_away}
        reasons: dict[str, WaitingReason] = {}
        for name in reversed([name for name in decisions if name not in silent]):
            for task_id, reason in decisions[name].reasons.items():
                where = {"cluster": self.context.options.shown(name)} if len(places[task_id]) > 1 else {}
                reasons[task_id] = WaitingReason(reason.code, {**reason.facts, **where})
        enabled = {queued.task_id for queued in entries}
        disabled = {
            entry.task_id: WaitingReason(WaitingCode.DISABLED) for entry in queue if entry.task_id not in enabled
        }
        answered = [entry for entry in queue if not set(places[entry.task_id]) <= silent]
        write_reasons(self.context, answered, {**reasons, **disabled}, self.clusters[0].tick)

    def _explain_silence(self, queue: Sequence[QueueEntry], places: Mapping[str, Collection[str]]) -> None:
        """Of tasks of which no cluster answers, or none is there any more."""
        since = {cluster.name: cluster.away_since for cluster in self.clusters}
        waiting: dict[str, list[QueueEntry]] = defaultdict(list)
        for entry in queue:
            silences = [since.get(name, self._began_at) for name in places[entry.task_id]]
            if all(silences):
                waiting[min(filter(None, silences), default=self._began_at)].append(entry)
        for at, entries in waiting.items():
            write_reason_for_all(
                self.context, entries, WaitingReason(WaitingCode.RAY, {"since": at}), self.clusters[0].tick
            )

    def _build_view(
        self,
        cluster: FollowedCluster,
        queue: Sequence[QueueEntry],
        places: Mapping[str, Collection[str]],
        decision: Decision,
    ) -> ClusterView:
        """Without what the cluster itself knows."""
        theirs = {entry.task_id: entry for entry in queue if cluster.name in places[entry.task_id]}
        waiting = len(theirs) - len(decision.admitted) if not cluster.is_away else len(theirs)
        is_in_order = self.context.options.queue is QueuePolicy.FIFO
        first = next((task_id for task_id, why in decision.reasons.items() if why.code in FOR_ROOM), None)
        return ClusterView(
            cluster.tick.at,
            queued=waiting,
            order=() if is_in_order else tuple(decision.reasons)[:SHOWN_ORDER],
            first=_describe_first(theirs[first], decision.reasons[first]) if first is not None else None,
        )

    def _compute_shares(self, now: datetime) -> Shares | None:
        """The past use by user, computed once a minute; None if nobody needs it."""
        options = self.context.options
        if options.queue is not QueuePolicy.FAIR:
            return None
        if self._use is None or not timedelta() <= now - self._use[0] < USE_READ_AFTER:
            since = to_text(now - timedelta(seconds=USE_HALF_LIVES * HALF_LIFE_S))
            with self.context.database.read() as conn:
                uses = store.uses_since(conn, since, to_text(now))
            self._use = now, Shares(compute_decayed_use(uses, now), options.weights)
        return self._use[1]

    def _prune_checkpoints(self, cluster: FollowedCluster, followed: Sequence[Task]) -> None:
        """followed: tasks that were active when this tick began; those that have ended since are pruned once more."""
        active = {allocation.task.task_id for allocation in cluster.allocations}
        for task in followed:
            cluster.tick.watch()
            with isolate(task.task_id):
                prune(cluster.context, self._curves, task, cluster.tick, has_ended=task.task_id not in active)


def _describe_first(entry: QueueEntry, reason: WaitingReason) -> FirstInLine:
    promise = {name: reason.facts.get(name) for name in ("starts_by", "after_user", "after_task")}
    return FirstInLine(entry.task_id, entry.user, entry.demand.gpus, **promise, cpus=entry.demand.cpus)


def _build_rules(
    options: TrainingOptions,
    allocations: Sequence[Allocation],
    everywhere: Sequence[Allocation],
    limits: Mapping[str, int],
) -> AdmissionRules:
    """everywhere: allocations of all clusters. limits: GPUs that the tasks of environments may hold."""
    held: Counter[str] = Counter()
    preemptible, ending = [], []
    by_environment: Counter[str] = Counter()
    ends = {}
    for allocation in everywhere:
        held[allocation.task.user] += allocation.task.demand.gpus
        by_environment[allocation.task.environment] += allocation.task.demand.gpus
    for allocation in allocations:
        task, attempt = allocation.task, allocation.attempt
        began = max(from_text(attempt.started_at or attempt.created_at), from_text(attempt.created_at))
        if task.state not in (State.SUBMITTING, State.SUBMITTED, State.RUNNING) or attempt.failure_kind is not None:
            ending.append(task.task_id)
        elif task.is_preemptible and task.priority in options.preempted:
            is_asked = attempt.preempt_asked_at is not None
            preemptible.append(Preemptible(task.task_id, task.priority, began, is_asked))
        if task.max_run_s is not None:
            ends[task.task_id] = began + timedelta(seconds=task.max_run_s)
    return AdmissionRules(
        most_gpus_per_user=options.most_gpus_per_user,
        held_gpus=held,
        most_gpus_per_environment=limits,
        held_by_environment=by_environment,
        does_backfill=options.does_backfill,
        ends=ends,
        preemptible=preemptible,
        ending=ending if options.preempted else (),
    )
