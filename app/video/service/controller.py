"""Makes the nodes' orders what jobs and catalogue want. Level-triggered: may run twice, and for what is gone."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from app.kit.clock import to_text
from app.kit.sql import Database
from app.nodes.model import Node, Order, WorkKey
from app.nodes.service import Nodes
from app.video import store
from app.video.model.job import JOBS, JobState, StageHost
from app.video.service import orders as ordering
from app.video.service.jobs import Jobs
from app.video.service.node_changes import NodeChanges, changes_of
from app.video.service.planner import Planner
from app.video.service.reports import Reports
from app.video.service.resources import Resources
from app.video.service.stage_deployment import StageDeployment
from app.video.store import Kept

LOOK_S = 10.0
"""So often all are looked at."""


class Controller:
    """processes: that compute stages on a node."""

    def __init__(
        self,
        database: Database,
        jobs: Jobs,
        resources: Resources,
        planning: Planner,
        reports: Reports,
        nodes: Nodes,
        *,
        processes: int,
        keep_days: int,
    ) -> None:
        self.database = database
        self.jobs = jobs
        self.resources = resources
        self.planning = planning
        self.reports = reports
        self.nodes = nodes
        self.serving = StageDeployment(database, resources, processes=processes)
        self.keep_days = keep_days
        self._looked_at: datetime | None = None
        self._known = dict[str, NodeChanges]()

    def reconcile(self, uid: str, *, now: datetime) -> None:
        """Orders of one job: its runner, while it is not DONE; with the hosts there are now. uid empty: of the hosts of
        stages, on nodes that have videos or are of the cloud, while there is a stage to serve."""
        if not uid:
            self.serving.reconcile(now)
            return
        with self.database.read() as conn:
            kept = store.get(conn, uid)
            orders = self.nodes.orders_of(conn, JOBS, uid)
        if kept is None or kept.job.state is JobState.DONE:
            self._withdraw(uid, kept)
            return
        if not self.resources.may_use(kept.job, now):
            self.jobs.bar(uid, now=now)
            return
        self._carry(kept, orders, self.nodes.seen_by(kept.job.owner), now)

    def due(self, now: datetime) -> list[str]:
        """uids to look at, by and by all; the empty one among them. Is called every few seconds."""
        if self._looked_at is not None and 0 <= (now - self._looked_at).total_seconds() < LOOK_S:
            return []
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        self._looked_at = now
        return ["", *uids]

    def node_replaced(self, _: str, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: the machine that was evicted knows the secrets of all hosts that its jobs called."""
        if not any(key.kind == JOBS for key in keys):
            return
        for node in self.serving.renew_secrets():
            self.nodes.nudge(node)
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        for uid in ("", *uids):
            self.jobs.kick(uid)

    def node_permitted(self, _: str, __: Collection[WorkKey]) -> None:
        """Listens to nodes: jobs of those who may no longer use it end, and others' plans take it in or do without."""
        with self.database.read() as conn:
            uids = store.open_uids(conn)
        for uid in uids:
            self.jobs.kick(uid)

    def node_changed(self, node: Node, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: jobs that have a part there are looked at soon, and asked for another plan when a host of
        theirs came or went.

        Nodes report every few seconds: what is no news for jobs is passed over. What was news to another process is
        news to this one, too, and does no harm."""
        news = NodeChanges.of(node)
        known, self._known[node.name] = self._known.get(node.name), news
        uids = [key.uid for key in keys if key.kind == JOBS and news.tells_of(key, known)]
        if news.tells_of_hosts(known):
            with self.database.read() as conn:
                uids += store.open_uids(conn)
            self.jobs.kick("")
        for uid in dict.fromkeys(uids):
            self.jobs.kick(uid)

    def forget_old(self, now: datetime) -> None:
        """Jobs that ended long ago (settings), with their events, decisions and pictures."""
        with self.database.read() as conn:
            uids = store.ended_before(conn, to_text(now - timedelta(days=self.keep_days)))
        self.jobs.forget(uids)

    def _withdraw(self, uid: str, kept: Kept | None) -> None:
        with self.database.write() as conn:
            told = self.nodes.withdraw(conn, JOBS, uid)
            if kept is not None and kept.is_open:
                store.change(conn, uid, is_open=False)
        for node in told:
            self.nodes.nudge(node)

    def _carry(self, seen: Kept, orders: list[Order], nodes: list[Node], now: datetime) -> None:
        uid = seen.job.uid
        hosts = self.resources.hosts_among(nodes, seen.job.node, now)
        is_told = ordering.tells(orders, seen.job.node, ordering.content_of(seen.job, hosts))
        changes = changes_of(seen, nodes, now)
        told = set[str]()
        if not is_told or changes:
            with self.database.write() as conn:
                kept = store.lock(conn, uid)
                if kept is None or kept.job.state is JobState.DONE:
                    return
                for change in changes_of(kept, nodes, now):
                    change.make(conn, kept, to_text(now))
                told = set(self.nodes.withdraw(conn, JOBS, uid, but=kept.job.node))
                told |= ordering.put_job(self.nodes, conn, kept.job, hosts)
        for node in told:
            self.nodes.nudge(node)
        if changes:
            self.jobs.announce(uid)
        self._ask(seen, hosts, orders, nodes, now)

    def _ask(
        self, seen: Kept, hosts: tuple[StageHost, ...], orders: list[Order], nodes: list[Node], now: datetime
    ) -> None:
        """For another plan, when hosts came or went, or there is none that could be carried out."""
        is_heard = any(node.name == seen.job.node and node.is_online(now) for node in nodes)
        if not hosts or not is_heard:
            return
        is_other = {(host.node, host.url) for host in hosts} != ordering.hosts_told(orders)
        waits = not ordering.is_carried(seen.job, nodes, now)
        if is_other or waits:
            self.planning.send(seen.job.uid, "node" if is_other else "wait")
