"""The reports of edge workers: their tallies, and the rows that they have answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import redis
from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.model.fleet import SUMMED_AT, sum_infos, task_info_of
from app.joint_inference.model.resource import Service
from app.joint_inference.model.status import metrics_of
from app.joint_inference.service.producers import origin_of, producer_of_service
from app.joint_inference.service.row_report import RowReport
from app.joint_inference.service.service_nodes import check_runs_on, running_nodes
from app.joint_inference.service.services import Services
from app.joint_inference.service.task_info import UpstreamStatus, read_status
from app.kit.clock import from_text, to_text
from app.kit.redis.time_series import TimeSeries
from app.kit.sql import Database
from app.nodes.service import Nodes
from app.results import store as results
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.service import Rules

SERIES = 360
SUM_EVERY_S = 2.0
"""Where a service has many edge workers, each of which reports by itself."""
POINT_EVERY_S = 5.0
"""Half an hour of points."""


@dataclass(frozen=True)
class TallyPoint:
    """task_info at a moment, of which a plot takes what it shows."""

    at: str
    task_info: Mapping[str, Any]


@dataclass(eq=False)
class Reports:
    """Receives and shows the reports of all services.

    Args:
        client: for what is kept only as long as Redis runs.
        rules: evaluates what services detect.
        send: hands a status to the controller: uid of the service, status.
        wake_sinks: has what waits for sinks delivered soon.
    """

    services: Services
    nodes: Nodes
    client: redis.Redis
    rules: Rules
    send: Callable[[str, UpstreamStatus], None]
    wake_sinks: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.database: Database = self.services.database
        self.plots = TimeSeries(self.client, "joint:series", most=SERIES, every_s=POINT_EVERY_S)

    def take(self, namespace: str, name: str, body: Any, *, node: str = "", user: str = "") -> None:
        """A status as the requirement has it, {phase, status, output: {models, taskInfo | ownerInfo}}, for the upstream
        controller to write down.

        Args:
            node: that reports; a user reports of their own services only.

        Raises:
            BadInput: The body has another form.
            ServiceNotFound: There is none that this node or user may report of.
        """
        status = read_status(body)
        with self.database.read() as conn:
            service = self._find_reported(conn, namespace, name, node=node, user=user, uid=status.uid)
        self.send(service.uid, status.model_copy(update={"node": node}))

    def note(self, uid: str, status: UpstreamStatus, *, now: datetime) -> None:
        """The upstream controller: store a status, unless a newer one is stored. Idempotent."""
        with self.database.write() as conn:
            service = store.lock(conn, uid)
            if service is None or service.gone_at:
                return
            is_fleet = bool(service.specification.edge.selector)
            reports = store.reports_of(conn, uid) if is_fleet else {}
            before = reports.get(status.node, {}) if is_fleet else service.reported
            reported = {**status.task_info, "phase": status.status}
            if not _is_newer(before, reported):
                return
            is_other_worker = any(before.get(key) != reported.get(key) for key in ("breaker", "phase"))
            if is_fleet:
                store.put_report(conn, uid, status.node, reported)
                running = running_nodes(self.nodes, conn, uid)
                reports = {
                    node: report for node, report in {**reports, status.node: reported}.items() if node in running
                }
                reported = {**sum_infos(reports.values()), SUMMED_AT: to_text(now)}
            is_due = not is_fleet or _is_older(service.reported.get(SUMMED_AT), now)
            if is_due:
                shown = {**service.status, "metrics": metrics_of(task_info_of(reported))}
                store.change_service(conn, service, reported=reported, status=shown)
        if is_due:
            self.plots.add(uid, vars(TallyPoint(to_text(now), task_info_of(reported))))
        if is_other_worker:
            self.services.wake(uid)
        self.services.announce()

    def series(self, uid: str) -> list[TallyPoint]:
        """Oldest first. Lost with Redis."""
        return [TallyPoint(**point) for point in self.plots.all(uid)]

    def add_rows(self, node: str, uid: str, report: RowReport, *, now: datetime) -> None:
        """Keep what a node's worker has answered. A report that was taken in before is ignored.

        Args:
            node: that reports.
            uid: of the service.
            report: the rows, oldest first.
            now: the time of a row that has none.

        Raises:
            ServiceNotFound: This node does not run it.
        """
        with self.database.write() as conn:
            service = store.lock(conn, uid)
            check_runs_on(self.nodes, conn, uid, node)
            if service is None or service.gone_at is not None or not report.rows:
                return
            first = store.take_numbers(conn, uid, node, report.run, report.batch, len(report.rows))
            if first is None:
                return
            origin = {"node": name} if (name := origin_of(service, node)) else {}
            rows = [{**row, **origin} for row in report.rows]
            records = [FrameRecord(n, moment_of(row, now), row) for n, row in enumerate(rows, first)]
            has_events = self.rules.take(conn, producer_of_service(service), records, now=now).event_count > 0
            is_awaited = results.has_sinks(conn, uid)
        if is_awaited:
            self.wake_sinks()
        if has_events:
            self.services.announce()

    def forget(self, uid: str) -> None:
        """Delete the plots of a service."""
        self.plots.forget(uid)

    def _find_reported(self, conn: Connection, namespace: str, name: str, *, node: str, user: str, uid: str) -> Service:
        services = store.of_this_name(conn, namespace, name)
        fitting = [service for service in services if not uid or service.uid == uid]
        if node:
            fitting = [service for service in fitting if node in running_nodes(self.nodes, conn, service.uid)]
        else:
            fitting = [service for service in fitting if service.owner == user]
        if not fitting:
            raise ServiceNotFound(f"There is no service {name!r} in the namespace {namespace!r}.")
        return fitting[0]


def _is_older(at: str | None, now: datetime) -> bool:
    """Whether the nodes of a service were last added up so long ago that it is due again."""
    return at is None or (now - from_text(at)).total_seconds() >= SUM_EVERY_S


def _is_newer(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """currentTime is when something was last counted, by a clock of the edge: it stands still while other things
    change, may be set back while the counts go on. Another startTime is another count, perhaps another machine's."""
    if after == before:
        return False
    is_same_count = after.get("startTime") == before.get("startTime")
    if not is_same_count or not before.get("currentTime") or not after.get("currentTime"):
        return True
    is_older = from_text(after["currentTime"]) < from_text(before["currentTime"])
    return not is_older or after["inferenceNumber"] > before["inferenceNumber"]
