"""Keeps the orders of nodes as jobs and catalog need them. Level-triggered: it may run at any time, also for a job that
is gone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from app.kit.clock import to_text
from app.kit.sql import Database
from app.nodes.model import Node, Order, WorkKey
from app.nodes.service import Nodes
from app.video import store
from app.video.model.job import JOBS, JobState, StageHost
from app.video.service import orders as ordering
from app.video.service.job_sets import JobSets
from app.video.service.jobs import Jobs
from app.video.service.node_changes import NodeSnapshot, changes_of
from app.video.service.planner import Planner
from app.video.service.reports import Reports
from app.video.service.resources import Resources
from app.video.service.stage_deployment import StageDeployment
from app.video.store import StoredJob

SWEEP_EVERY_S = 10.0
"""Interval between two passes over all jobs."""


@dataclass(eq=False)
class Controller:
    """Reconciles the orders of jobs and of stage hosts, and deletes old jobs.

    Args:
        processes: How many compute stages on each node.
        keep_days: How long a job that has ended is kept.
    """

    database: Database
    jobs: Jobs
    sets: JobSets
    resources: Resources
    planning: Planner
    reports: Reports
    nodes: Nodes
    _: KW_ONLY
    processes: int
    keep_days: int

    def __post_init__(self) -> None:
        self.deployment = StageDeployment(self.database, self.resources, processes=self.processes)
        self._swept_at: datetime | None = None
        self._snapshots = dict[str, NodeSnapshot]()

    def reconcile(self, uid: str, *, now: datetime) -> None:
        """Orders the runner of a job with the current stage hosts, until the job is DONE. With an empty uid it orders
        the stage hosts, on nodes that have videos or are in the cloud, while there is a stage to serve, and submits the
        jobs of job sets."""
        if not uid:
            self.deployment.reconcile(now)
            self.sets.reconcile(now)
            return
        with self.database.read() as conn:
            stored = store.get(conn, uid)
            orders = self.nodes.orders_of(conn, JOBS, uid)
        if stored is None or stored.job.state is JobState.DONE:
            self._withdraw(uid, stored)
            return
        if not self.resources.may_use(stored.job, now):
            self.jobs.bar(uid, now=now)
            return
        self._order_runner(stored, orders, self.nodes.access.seen_by(stored.job.owner), now)

    def due(self, now: datetime) -> list[str]:
        """The uids to reconcile now, including the empty one: all of them every SWEEP_EVERY_S, none in between. Called
        every few seconds."""
        if self._swept_at is not None and 0 <= (now - self._swept_at).total_seconds() < SWEEP_EVERY_S:
            return []
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        self._swept_at = now
        return ["", *uids]

    def node_replaced(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: the evicted machine knows the secrets of all hosts that its jobs called."""
        if not any(key.kind == JOBS for key in keys):
            return
        for node in self.deployment.renew_secrets():
            self.nodes.notify(node)
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        for uid in ("", *uids):
            self.jobs.wake(uid)

    def node_permitted(self, _: str, __: Collection[WorkKey]) -> None:
        """Listens to nodes: jobs of users who may no longer use it end, and plans of others include or exclude it; it
        starts or stops serving their stages."""
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        for uid in ("", *uids):
            self.jobs.wake(uid)

    def node_changed(self, node: Node, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: jobs that use the node are checked soon, and replanned if one of their hosts appeared or
        disappeared.

        Nodes report every few seconds: a report that changes nothing for jobs is ignored. Each process compares by
        itself, so a change may be checked more than once."""
        snapshot = NodeSnapshot.of(node)
        before, self._snapshots[node.name] = self._snapshots.get(node.name), snapshot
        uids = [key.uid for key in keys if key.kind == JOBS and snapshot.differs_for(key, before)]
        if snapshot.has_other_hosts(before):
            with self.database.read() as conn:
                uids += store.open_uids(conn)
            self.jobs.wake("")
        for uid in dict.fromkeys(uids):
            self.jobs.wake(uid)

    def forget_old(self, now: datetime) -> None:
        """Deletes jobs that ended long ago (settings), with their events, decisions and pictures."""
        with self.database.read() as conn:
            uids = store.list_ended_before(conn, to_text(now - timedelta(days=self.keep_days)))
        self.jobs.forget(uids)

    def _withdraw(self, uid: str, stored: StoredJob | None) -> None:
        with self.database.write() as conn:
            nodes = self.nodes.withdraw(conn, JOBS, uid)
            if stored is not None and stored.is_open:
                store.change(conn, uid, is_open=False)
        for node in nodes:
            self.nodes.notify(node)

    def _order_runner(self, unlocked: StoredJob, orders: list[Order], nodes: list[Node], now: datetime) -> None:
        uid = unlocked.job.uid
        hosts = self.resources.hosts_among(nodes, unlocked.job.node, now)
        is_up_to_date = ordering.is_ordered(orders, unlocked.job.node, ordering.content_of(unlocked.job, hosts))
        changes = changes_of(unlocked, nodes, now)
        changed_nodes = set[str]()
        if not is_up_to_date or changes:
            with self.database.write() as conn:
                stored = store.lock(conn, uid)
                if stored is None or stored.job.state is JobState.DONE:
                    return
                for change in changes_of(stored, nodes, now):
                    change.apply(conn, stored, to_text(now))
                changed_nodes = set(self.nodes.withdraw(conn, JOBS, uid, but=[stored.job.node]))
                changed_nodes |= ordering.order_job(self.nodes, conn, stored.job, hosts)
        for node in changed_nodes:
            self.nodes.notify(node)
        if changes:
            self.jobs.announce(uid)
        self._request_plan(unlocked, hosts, orders, nodes, now)

    def _request_plan(
        self, stored: StoredJob, hosts: tuple[StageHost, ...], orders: list[Order], nodes: list[Node], now: datetime
    ) -> None:
        """Requests another plan if hosts appeared or disappeared, or if the job has no plan that can be carried out."""
        is_online = any(node.name == stored.job.node and node.is_online(now) for node in nodes)
        if not hosts or not is_online:
            return
        is_other = {(host.node, host.url) for host in hosts} != ordering.hosts_ordered(orders)
        waits = not ordering.can_run(stored.job, nodes, now)
        if is_other or waits:
            self.planning.send(stored.job.uid, "node" if is_other else "wait")
