"""One cluster as the scheduler follows it: its active tasks, its nodes, and since when it does not answer.

Of several clusters, one that does not answer is asked again beside the ticks, so that the others do not wait for it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import redis

from app.kit.errors import ModelmillError
from app.kit.observability import logs
from app.kit.redis.leader import Superseded, Watch
from app.kit.sql.errors import DatabaseUnavailable
from app.training.errors import RayUnreachable
from app.training.gateway import PlacementGroup
from app.training.model import Attempt, Node, State, Task
from app.training.model.clock_steps import ClockSteps
from app.training.model.learning_curve import NODES_FILE
from app.training.model.node_use import NodeUse, use_metrics
from app.training.service.cluster import ClusterPicture, ClusterView, Holder
from app.training.service.scheduling.attempt_files import new_file, old_file, open_folder, write_all
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.scheduling.preemption_steps import judge_preemption
from app.training.service.scheduling.ray_sync import copy_log, follow, judge_run, judge_wait, with_claim

EVER = datetime(1970, 1, 1, tzinfo=UTC)
MEASURED_EVERY_S = 15.0
MOST_BYTES = 16 << 20
"""Of an attempt's file with the use of its nodes: two weeks of two nodes. Later rows are dropped."""
logger = logging.getLogger(__name__)


class FollowedCluster:
    """Used by one thread.

    Args:
        picture: where its snapshot is written.
        is_alone: the only one; it is then asked at each tick.
    """

    def __init__(self, context: SchedulerContext, picture: ClusterPicture, *, is_alone: bool) -> None:
        self.context = context
        self.name = context.cluster
        self.allocations: list[Allocation] = []
        self.nodes: tuple[Node, ...] = ()
        self.problem: RayUnreachable | None = None
        """Why it took no part in this tick; None: it answers."""
        self.away_since: str | None = None
        self._picture = picture
        self._is_alone = is_alone
        self._answering_since: datetime | None = None
        self._remark = ""
        self._uses: Mapping[str, NodeUse] = {}
        self._measured_at: datetime | None = None
        self._probe: Future[object] | None = None
        self._prober = ThreadPoolExecutor(1, thread_name_prefix="ray-probe")
        self._called = "" if is_alone else f" of cluster {context.options.shown(context.cluster)}"

    @property
    def is_away(self) -> bool:
        return self.problem is not None

    def look(self, active: Sequence[tuple[Task, Attempt]], now: datetime, watch: Watch, steps: ClockSteps) -> None:
        """Follow what it has. Jobs first, then groups, then nodes: what is claimed in between counts twice instead of
        never.

        Args:
            active: What it has, or may have.
            steps: Of the clock by which it is `now`.
        """
        self.problem = None
        self.tick = TickContext(now, self._answering_since or self._begin_of_answers(now), watch, steps)
        self.allocations = [Allocation(task, attempt) for task, attempt in active]
        with self.ray_call():
            self._require_answer()
            self.allocations = list(self._follow())
            is_any_running = any(allocation.is_running for allocation in self.allocations)
            groups = self.context.gateway.placement_groups() if is_any_running else ()
            self.allocations = list(self._judge(groups))
            self.nodes = self.context.gateway.nodes()

    @contextmanager
    def ray_call(self) -> Iterator[None]:
        """That Ray does not answer ends what is done inside, and its part in this tick."""
        try:
            yield
        except RayUnreachable as error:
            self.problem = error
            self._answering_since = None
            if self.away_since is None:
                view = self._get_view()
                self.away_since = (view.unreachable_since if view else None) or self.tick.at
                logger.warning("Ray%s does not answer, and tasks stay as they are: %s", self._called, error.message)

    def stop(self, task_ids: Collection[str]) -> None:
        """Of tasks that were cancelled in this tick: Ray is told now, and asked again soon whether they have ended."""
        stopping = [allocation for allocation in self.allocations if allocation.task.task_id in task_ids]
        for allocation in stopping:
            canceling = replace(allocation, task=replace(allocation.task, state=State.CANCELING))
            self.allocations[self.allocations.index(allocation)] = canceling
        if self.is_away:
            return
        with self.ray_call():
            for allocation in stopping:
                self.context.gateway.stop(allocation.attempt.submission_id)

    def show(self, view: ClusterView) -> None:
        """Write the snapshot of this tick.

        Args:
            view: Without what is known here.
        """
        if self.problem is not None:
            sentence = " ".join(part for part in (self.problem.message, self.problem.hint) if part)
            before = self._get_view() or view
            view = replace(
                before, seen_at=view.seen_at, queued=view.queued, unreachable_since=self.away_since, problem=sentence
            )
        else:
            self._answering_since = self.tick.answering_since
            if self.away_since is not None:
                logger.info("Ray%s answers again; it did not since %s.", self._called, self.away_since)
                self.away_since = None
            holders = tuple(map(_make_holder, self.allocations))
            remark = self.context.gateway.remark()
            if remark and remark != self._remark:
                logger.warning("%s", remark)
            self._remark = remark
            view = replace(view, nodes=self.nodes, holders=holders, use=dict(self._uses), problem=remark)
        try:
            self._picture.put(view, self.name)
        except redis.RedisError as error:
            logger.warning("The cluster is not shown: %s", error)

    def copy_logs(self) -> None:
        for allocation in self.allocations:
            self.tick.watch()
            try:
                with isolate(allocation.task.task_id):
                    copy_log(self.context, allocation, self.tick)
            except RayUnreachable as error:
                logger.warning("The logs of running tasks are copied later: %s", error.message)
                return

    def measure(self) -> None:
        """Now and then: how much the nodes are used. It is of no weight if that is not to be had."""
        now, last = self.tick.now, self._measured_at
        if last is not None and timedelta() <= now - last < timedelta(seconds=MEASURED_EVERY_S):
            return
        self._measured_at = now
        try:
            self._uses = self.context.gateway.use()
        except RayUnreachable as error:
            self._uses = {}
            logger.info("The use of nodes is not known: %s", error.message)
        for allocation in self.allocations:
            self.tick.watch()
            with isolate(allocation.task.task_id):
                _write_use(self.context, allocation, self.nodes, self._uses, self.tick)

    def close(self) -> None:
        self._prober.shutdown(wait=False, cancel_futures=True)
        self.context.gateway.close()

    def _require_answer(self) -> None:
        """Refuses to go on as long as the question beside the ticks has no answer."""
        if self._is_alone or self.away_since is None:
            return
        probe, self._probe = self._probe, None
        if probe is None:
            probe = self._prober.submit(self.context.gateway.nodes)
        if probe.done():
            probe.result()
            return
        self._probe = probe
        view = self._get_view()
        raise RayUnreachable(view.problem if view and view.problem else "Ray does not answer.")

    def _follow(self) -> Iterator[Allocation]:
        for allocation in self.allocations:
            self.tick.watch()
            current: Allocation | None = allocation
            with isolate(allocation.task.task_id):
                current = follow(self.context, allocation.task, allocation.attempt, self.tick)
            if current is not None:
                yield current

    def _judge(self, groups: Sequence[PlacementGroup]) -> Iterator[Allocation]:
        for allocation in self.allocations:
            claiming = with_claim(allocation, groups)
            with isolate(allocation.task.task_id):
                claiming = judge_run(self.context, judge_wait(self.context, claiming, groups, self.tick), self.tick)
                claiming = judge_preemption(self.context, claiming, self.tick)
            yield claiming

    def _begin_of_answers(self, now: datetime) -> datetime:
        """Whether this scheduler, or the one before it, has last found Ray silent."""
        view = self._get_view()
        is_silent = self.away_since is not None or (view is not None and view.unreachable_since is not None)
        return now if is_silent else EVER

    def _get_view(self) -> ClusterView | None:
        try:
            return self._picture.get(self.name)
        except redis.RedisError:
            return None


def _make_holder(allocation: Allocation) -> Holder:
    task = allocation.task
    gpus, cpus = task.demand.gpus, task.demand.cpus
    return Holder(
        task.task_id, task.user, task.workload.value, task.state.value, gpus, dict(allocation.claim.gpus), cpus
    )


@contextmanager
def isolate(task_id: str) -> Iterator[None]:
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


def _write_use(
    context: SchedulerContext,
    allocation: Allocation,
    nodes: Sequence[Node],
    uses: Mapping[str, NodeUse],
    tick: TickContext,
) -> None:
    """Appends a row about the nodes on which a running task has something. Raises errors of homes.

    Args:
        uses: by node id.
    """
    claim, driver = allocation.claim, allocation.attempt.driver_node_id
    held = {*claim.gpus, *claim.cpus, *([driver] if driver else [])}
    names = _name_nodes([node for node in nodes if node.node_id in held and node.node_id in uses])
    if not allocation.is_running or not names:
        return
    at = round(tick.now.timestamp(), 3)
    row = {"step": int(at), "time": at, **use_metrics({name: uses[node_id] for node_id, name in names.items()})}
    _append(context, allocation, json.dumps(row).encode() + b"\n")


def _name_nodes(nodes: Sequence[Node]) -> dict[str, str]:
    """By id: the address, of several with one address with a part of the id."""
    addresses = [node.address for node in nodes]
    return {
        node.node_id: node.address
        if node.address and addresses.count(node.address) == 1
        else f"{node.address} {node.node_id[:8]}".strip()
        for node in nodes
    }


def _append(context: SchedulerContext, allocation: Allocation, line: bytes) -> None:
    files, user, folder = context.homes.files, allocation.task.user, allocation.attempt.folder
    with open_folder(files, user, folder) as folder_fd:
        with old_file(folder_fd, NODES_FILE, os.O_WRONLY | os.O_APPEND) as fd:
            if fd is not None:
                if os.fstat(fd).st_size < MOST_BYTES:
                    write_all(fd, line)
                return
        with new_file(folder_fd, NODES_FILE) as fd:
            write_all(fd, line)
