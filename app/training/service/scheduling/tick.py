"""One tick: sync with Ray, admit tasks for which there is room, record why the others wait, copy logs, and delete
checkpoints that are neither among the last nor among the best, for tasks with a limit.

It can be interrupted between any two steps and repeated. If Ray does not answer, the tick ends without changing a
state; the next one queries it again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import redis

from app.homes.home_paths import home_path_of
from app.kit.clock import from_text, to_text
from app.kit.errors import ModelmillError
from app.kit.observability import logs
from app.kit.redis.leader import Superseded, Watch
from app.kit.sql.errors import DatabaseUnavailable
from app.training import store
from app.training.errors import RayUnreachable
from app.training.gateway import PlacementGroup
from app.training.model import Node, State, Task, Waiting, WaitingCode
from app.training.model.checkpoint_order import rank, superfluous
from app.training.model.gang import AdmissionRules, decide
from app.training.model.preemption import Preemptible
from app.training.model.queue_order import HALF_LIFE_S, QueuePolicy, Shares, decayed_use, in_order
from app.training.service.checkpoints import checkpoint_folder, complete_step, steps_in
from app.training.service.cluster import ClusterPicture, ClusterView, Holder
from app.training.service.curves import CurveReader
from app.training.service.folders import folders_of
from app.training.service.options import TrainingOptions
from app.training.service.scheduling.admission import as_queued, begin, read_queue, write_reason_for_all, write_reasons
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.scheduling.preemption_steps import ask_to_give_way, judge_preemption
from app.training.service.scheduling.ray_sync import copy_log, follow, judge_run, judge_wait, with_claim
from app.training.service.views import TaskView
from app.training.spec import TaskSpec, read_spec

EVER = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN_ORDER = 2000
"""Positions in the queue that users see."""
USE_READ_AFTER, USE_HALF_LIVES = timedelta(minutes=1), 4
logger = logging.getLogger(__name__)


class Scheduler:
    """Used by one thread. picture: where the snapshot of the cluster is written."""

    def __init__(self, context: SchedulerContext, picture: ClusterPicture) -> None:
        self.context = context
        self.picture = picture
        self._away_since: str | None = None
        self._answering_since: datetime | None = None
        self._order: tuple[str, ...] = ()
        self._use: tuple[datetime, Shares] | None = None
        self._curves = CurveReader(context.homes)
        self._followed: Sequence[Task] = ()

    def tick(self, now: datetime, watch: Watch = lambda: None) -> bool:
        """Whether anything is in transition, just started or told to stop. Raises DatabaseUnavailable, and the errors
        of watch."""
        tick = TickContext(now, self._answering_since or self._begin_of_answers(now), watch)
        try:
            view, allocations = self._round(tick)
        except RayUnreachable as error:
            self._answering_since = None
            self._ray_is_away(tick, error)
            return False
        self._answering_since = tick.answering_since
        self._ray_is_there(view)
        self._copy_logs(allocations, tick)
        self._prune_checkpoints({allocation.task.task_id for allocation in allocations}, tick)
        return any(allocation.task.state is not State.RUNNING for allocation in allocations)

    def close(self) -> None:
        self.context.gateway.close()

    def _round(self, tick: TickContext) -> tuple[ClusterView, list[Allocation]]:
        """Jobs first, then groups, then nodes: what is claimed in between counts twice instead of never."""
        allocations = self._follow_all(tick)
        groups = (
            self.context.gateway.placement_groups() if any(allocation.is_running for allocation in allocations) else ()
        )
        allocations = self._judge_all(allocations, groups, tick)
        nodes = self.context.gateway.nodes()
        begun, waiting = self._admit(allocations, nodes, tick)
        allocations += begun
        view = ClusterView(tick.at, nodes, tuple(_holder(allocation) for allocation in allocations), waiting)
        if self.context.options.queue is not QueuePolicy.FIFO:
            view = replace(view, order=self._order[:SHOWN_ORDER])
        return view, allocations

    def _follow_all(self, tick: TickContext) -> list[Allocation]:
        with self.context.database.read() as conn:
            tasks = store.active(conn) + store.released(conn)
            attempts = store.latest_attempts(conn, [task.task_id for task in tasks])
        self._followed = tasks
        allocations = []
        for task in tasks:
            tick.watch()
            attempt = attempts[task.task_id]
            current: Allocation | None = Allocation(task, attempt)
            with _isolated(task.task_id):
                current = follow(self.context, task, attempt, tick)
            allocations += [current] if current is not None else []
        return allocations

    def _judge_all(
        self, allocations: Sequence[Allocation], groups: Sequence[PlacementGroup], tick: TickContext
    ) -> list[Allocation]:
        judged = []
        for allocation in allocations:
            claiming = with_claim(allocation, groups)
            with _isolated(allocation.task.task_id):
                claiming = judge_run(self.context, judge_wait(self.context, claiming, groups, tick), tick)
                claiming = judge_preemption(self.context, claiming, tick)
            judged.append(claiming)
        return judged

    def _admit(
        self, allocations: Sequence[Allocation], nodes: Sequence[Node], tick: TickContext
    ) -> tuple[list[Allocation], int]:
        """What it has started, and how many still wait."""
        queue = read_queue(self.context)
        if not queue:
            self._order = ()
            ask_to_give_way(self.context, allocations, (), tick)
            return [], 0
        max_running = self.context.options.max_running_tasks
        may_start = max_running - len(allocations) if max_running else None
        held = [allocation.held for allocation in allocations]
        enabled = self.context.enabled_of({entry.user for entry in queue})
        entries = [as_queued(entry) for entry in queue if entry.user in enabled]
        entries = in_order(entries, self.context.options.queue, self._shares(tick))
        rules = _rules(self.context.options, allocations, self.context.environments.limits())
        decision = decide(entries, held, nodes, now=tick.at, may_start=may_start, rules=rules)
        self._order = tuple(decision.reasons)
        ask_to_give_way(self.context, allocations, decision.giving_way, tick)
        begun = []
        for task_id in decision.admitted:
            tick.watch()
            with _isolated(task_id):
                allocation = begin(self.context, task_id, tick)
                begun += [allocation] if allocation is not None else []
        disabled = {entry.task_id: Waiting(WaitingCode.DISABLED) for entry in queue if entry.user not in enabled}
        write_reasons(self.context, queue, {**decision.reasons, **disabled}, tick)
        return begun, len(queue) - len(decision.admitted)

    def _shares(self, tick: TickContext) -> Shares | None:
        """The past use by user, computed once a minute; None if nobody needs it."""
        options = self.context.options
        if options.queue is not QueuePolicy.FAIR:
            return None
        if self._use is None or not timedelta() <= tick.now - self._use[0] < USE_READ_AFTER:
            since = to_text(tick.now - timedelta(seconds=USE_HALF_LIVES * HALF_LIFE_S))
            with self.context.database.read() as conn:
                uses = store.uses_since(conn, since, tick.at)
            self._use = tick.now, Shares(decayed_use(uses, tick.now), options.weights)
        return self._use[1]

    def _copy_logs(self, allocations: Sequence[Allocation], tick: TickContext) -> None:
        for allocation in allocations:
            tick.watch()
            try:
                with _isolated(allocation.task.task_id):
                    copy_log(self.context, allocation, tick)
            except RayUnreachable as error:
                logger.warning("The logs of running tasks are copied later: %s", error.message)
                return

    def _prune_checkpoints(self, active: Collection[str], tick: TickContext) -> None:
        """active: ids of the still active tasks; others of this tick have just ended."""
        for task in self._followed:
            tick.watch()
            with _isolated(task.task_id):
                prune(self.context, self._curves, task, tick, has_ended=task.task_id not in active)

    # --- Ray comes and goes -------------------------------------------------------------------------------
    def _ray_is_away(self, tick: TickContext, error: RayUnreachable) -> None:
        view = self._seen() or ClusterView(tick.at)
        if self._away_since is None:
            self._away_since = view.unreachable_since or tick.at
            logger.warning("Ray does not answer, and tasks stay as they are: %s", error.message)
        queue = read_queue(self.context)
        write_reason_for_all(self.context, queue, Waiting(WaitingCode.RAY, {"since": self._away_since}), tick)
        problem = " ".join(part for part in (error.message, error.hint) if part)
        since = self._away_since
        self._show(replace(view, seen_at=tick.at, queued=len(queue), unreachable_since=since, problem=problem))

    def _ray_is_there(self, view: ClusterView) -> None:
        if self._away_since is not None:
            logger.info("Ray answers again; it did not since %s.", self._away_since)
            self._away_since = None
        self._show(view)

    def _begin_of_answers(self, now: datetime) -> datetime:
        """Whether this scheduler, or the one before it, has last found Ray silent."""
        view = self._seen()
        is_silent = self._away_since is not None or (view is not None and view.unreachable_since is not None)
        return now if is_silent else EVER

    def _seen(self) -> ClusterView | None:
        try:
            return self.picture.get()
        except redis.RedisError:
            return None

    def _show(self, view: ClusterView) -> None:
        try:
            self.picture.put(view)
        except redis.RedisError as error:
            logger.warning("The cluster is not shown: %s", error)


def _rules(options: TrainingOptions, allocations: Sequence[Allocation], limits: Mapping[str, int]) -> AdmissionRules:
    """limits: GPUs that the tasks of environments may hold."""
    held: Counter[str] = Counter()
    preemptible, ending = [], []
    by_environment: Counter[str] = Counter()
    ends = {}
    for allocation in allocations:
        task, attempt = allocation.task, allocation.attempt
        held[task.user] += task.demand.gpus
        by_environment[task.environment] += task.demand.gpus
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


def _holder(allocation: Allocation) -> Holder:
    task = allocation.task
    return Holder(
        task.task_id, task.user, task.workload.value, task.state.value, task.demand.gpus, dict(allocation.claim.gpus)
    )


@contextmanager
def _isolated(task_id: str) -> Iterator[None]:
    """A failure of one task does not affect the others. Failures that affect all propagate: Ray, the database, the end
    of this turn."""
    with logs.context(task_id=task_id):
        try:
            yield
        except (RayUnreachable, DatabaseUnavailable, Superseded, redis.RedisError):
            raise
        except ModelmillError as error:
            logger.warning("This task is looked after again at the next tick: %s", error.message)
        except Exception:  # a bug of ours in one task must not halt the queue
            logger.exception("This task cannot be looked after; the others are.")


KEEP_BEST = "keep_best"
"""Without this word a spec keeps no best checkpoints."""
CHECKPOINT_DELETED = "CHECKPOINT_DELETED"
MOST_AT_ONCE = 4


def prune(
    context: SchedulerContext, reader: CurveReader, task: Task, tick: TickContext, *, has_ended: bool = False
) -> None:
    """Deletes checkpoints that a task no longer keeps. Raises errors of homes and of the spec.

    Args:
        reader: reads the task's metrics, which rank its checkpoints.
        has_ended: all of them are deleted now, because there is no later pass.
    """
    if KEEP_BEST not in task.spec_text:
        return
    spec, _ = read_spec(task.spec_text.encode())
    path = checkpoint_folder(context.homes, task)
    if spec.keep_best is None or path is None:
        return
    for step in _superfluous(context, reader, task, spec, path)[: None if has_ended else MOST_AT_ONCE]:
        tick.watch()
        _delete(context, task, f"{path}/global_step_{step}", step, tick)


def _superfluous(context: SchedulerContext, reader: CurveReader, task: Task, spec: TaskSpec, path: str) -> list[int]:
    last, best = spec.keep_checkpoints or 1, spec.keep_best or 1
    steps = steps_in(context.homes, task.user, path)
    complete = complete_step(context.homes, task.user, path) if len(steps) > last else None
    if complete is None:
        return []
    with context.database.read() as conn:
        attempts = store.attempts_of(conn, task.task_id)
    view = TaskView(task, attempts, folders=folders_of(context.homes, task.user, attempts))
    ranking = rank(steps, reader.read(view).curves, spec.best_metric)
    return superfluous(steps, ranking, last=last, best=best, complete=complete)


def _delete(context: SchedulerContext, task: Task, path: str, step: int, tick: TickContext) -> None:
    with context.homes.files.opened(task.user) as home:
        home.remove_tree(home_path_of(context.homes.options, task.user, path).inner)
    with context.database.write() as conn:
        store.add_event(conn, task.task_id, CHECKPOINT_DELETED, tick.at, {"step": step})
    logger.info("The checkpoint of step %d is neither among the last nor the best, and was deleted.", step)
