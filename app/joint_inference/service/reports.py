"""The reports of edge workers: their tallies, and their hard samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import redis
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.errors import SampleNotFound, ServiceNotFound
from app.joint_inference.model.fleet import SUMMED_AT, summed, task_info_of
from app.joint_inference.model.resource import PLURAL, Service
from app.joint_inference.model.status import metrics_of
from app.joint_inference.model.tally import MOST_ROWS, Sample
from app.joint_inference.service.collection import HardSampleCollection
from app.joint_inference.service.producers import KIND, producer_of_service
from app.joint_inference.service.services import Services
from app.joint_inference.service.task_info import UpstreamStatus, read_status
from app.kit.clock import from_text, to_text
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.redis.time_series import TimeSeries
from app.kit.sql import Database
from app.kit.web.http import checked
from app.nodes.model import Operation, Order
from app.nodes.service import Nodes
from app.nodes.wire import read
from app.results import store as results
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.service import Rules

KEPT_SAMPLES = 20
JPEG = "image/jpeg"
RECENT_EVENTS = 50
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


class Reports:
    """Receives and shows the reports of all services.

    Args:
        objects: where previews of samples lie.
        client: for what is kept only as long as Redis runs.
        rules: evaluates what services detect.
        send: hands a status to the controller: uid of the service, status.
        wake_sinks: has what waits for sinks delivered soon.
        collection: keeps hard samples in data homes; None: none are kept there.
    """

    def __init__(
        self,
        services: Services,
        nodes: Nodes,
        objects: ObjectStore,
        client: redis.Redis,
        rules: Rules,
        send: Callable[[str, UpstreamStatus], None],
        wake_sinks: Callable[[], None] = lambda: None,
        collection: HardSampleCollection | None = None,
    ) -> None:
        self.database: Database = services.database
        self.services = services
        self.nodes = nodes
        self.objects = objects
        self.plots = TimeSeries(client, "joint:series", most=SERIES, every_s=POINT_EVERY_S)
        self.rules = rules
        self.send = send
        self.wake_sinks = wake_sinks
        self.collection = collection

    def take(self, namespace: str, name: str, body: Any, *, node: str = "", user: str = "") -> None:
        """A status as the requirement has it, {phase, status, output: {models, taskInfo | ownerInfo}}, for the upstream
        controller to write down.

        Args:
            node: that reports; a user reports of their own services only.

        Raises:
            BadInput, ServiceNotFound
        """
        status = read_status(body)
        with self.database.read() as conn:
            service = self._reported(conn, namespace, name, node=node, user=user, uid=status.uid)
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
                running = {order.node for order in self.nodes.orders_of(conn, PLURAL, uid) if not _is_ending(order)}
                reports = {node: told for node, told in {**reports, status.node: reported}.items() if node in running}
                reported = {**summed(reports.values()), SUMMED_AT: to_text(now)}
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

    def add_sample(
        self, node: str, uid: str, sample: Sample, picture: bytes, content_type: str, *, now: datetime
    ) -> None:
        """Store a sample that a node's worker sends. The newest KEPT_SAMPLES are kept.

        Args:
            uid: of the service.
            picture: encoded as `content_type` says.

        Raises:
            ServiceNotFound: This node does not run it.
        """
        with self.database.read() as conn:
            self._check_runs_on(conn, uid, node)
        sample = replace(sample, extra={**sample.extra, "node": node})
        self.objects.put(_picture(uid, sample.id), [picture], content_type=content_type)
        try:
            with self.database.write() as conn:
                self._check_runs_on(conn, uid, node)
                gone = store.put_sample(conn, uid, sample, content_type, at=to_text(now), keep=KEPT_SAMPLES)
        except ServiceNotFound:  # it was deleted meanwhile, with its other pictures
            self.objects.delete(_picture(uid, sample.id))
            raise
        for sample_id in gone:
            self.objects.delete(_picture(uid, sample_id))
        with self.database.read() as conn:
            service = store.by_uid(conn, uid)
        if service is not None:
            if content_type == JPEG:
                origin = _origin(service, node), str(sample.extra.get("source", ""))
                self.rules.keep_picture(KIND, uid, picture, now, node=origin[0], source=origin[1])
            self._collect(service, sample, picture, content_type, to_text(now))
        self.services.announce()

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
            self._check_runs_on(conn, uid, node)
            if service is None or service.gone_at is not None or not report.rows:
                return
            first = store.take_numbers(conn, uid, node, report.run, report.batch, len(report.rows))
            if first is None:
                return
            origin = {"node": name} if (name := _origin(service, node)) else {}
            rows = [{**row, **origin} for row in report.rows]
            records = [FrameRecord(n, moment_of(row, now), row) for n, row in enumerate(rows, first)]
            has_events = self.rules.take(conn, producer_of_service(service), records, now=now).event_count > 0
            is_awaited = results.has_sinks(conn, uid)
        if is_awaited:
            self.wake_sinks()
        if has_events:
            self.services.announce()

    def samples(self, user: str, namespace: str, name: str) -> list[Sample]:
        """Newest first."""
        service = self.services.get(user, namespace, name)
        with self.database.read() as conn:
            return store.samples_of(conn, service.uid)

    def picture(self, user: str, namespace: str, name: str, sample_id: str) -> tuple[bytes, str]:
        """The preview of a sample.

        Args:
            name: of the service.
            sample_id: as its report has it.

        Returns:
            The picture's bytes and content type.

        Raises:
            SampleNotFound: It has gone, for only the newest are kept.
        """
        service = self.services.get(user, namespace, name)
        with self.database.read() as conn:
            content_type = store.content_type_of(conn, service.uid, sample_id)
        if content_type is not None:
            try:
                return b"".join(self.objects.read(_picture(service.uid, sample_id))), content_type
            except ObjectMissing:
                pass
        raise SampleNotFound(f"There is no sample {sample_id!r} (any more): only the newest are kept.")

    def newest_picture(self, service: Service, *, node: str = "", source: str = "") -> tuple[bytes, str] | None:
        """The newest of the kept hard samples: the picture's bytes and content type; None while there is none.

        Args:
            node: that sent it; empty: any.
            source: that it comes from; empty: any.
        """
        with self.database.read() as conn:
            samples = store.samples_of(conn, service.uid)
            origin = {"node": node, "source": source}.items()
            fitting = (one for one in samples if all(name in ("", one.extra.get(key)) for key, name in origin))
            sample = next(fitting, None)
            content_type = store.content_type_of(conn, service.uid, sample.id) if sample else None
        if sample is None or content_type is None:
            return None
        try:
            return b"".join(self.objects.read(_picture(service.uid, sample.id))), content_type
        except ObjectMissing:
            return None

    def forget(self, uid: str) -> None:
        """Delete the pictures and plots of a service."""
        self.objects.delete_prefix(f"joint/{uid}/")
        self.plots.forget(uid)

    def _collect(self, service: Service, sample: Sample, picture: bytes, content_type: str, at: str) -> None:
        """Into the data home. Why that cannot be done is an event of the service, once."""
        if self.collection is None:
            return
        uid = service.uid
        problem = self.collection.add(service, sample, picture, content_type)
        if not problem:
            return
        message = f"Hard samples are not kept in the data home: {problem}."
        with self.database.write() as conn:
            if message not in {event.message for event in store.events_of(conn, uid, RECENT_EVENTS)}:
                store.add_event(conn, uid, at, type="Warning", reason="NotCollected", message=message)

    def _reported(self, conn: Connection, namespace: str, name: str, *, node: str, user: str, uid: str) -> Service:
        services = store.of_this_name(conn, namespace, name)
        fitting = [service for service in services if not uid or service.uid == uid]
        if node:
            fitting = [service for service in fitting if self._runs_on(conn, service.uid, node)]
        else:
            fitting = [service for service in fitting if service.owner == user]
        if not fitting:
            raise ServiceNotFound(f"There is no service {name!r} in the namespace {namespace!r}.")
        return fitting[0]

    def _runs_on(self, conn: Connection, uid: str, node: str) -> bool:
        """What it is to end does not count: the worker that took its place says how things are."""
        orders = self.nodes.orders_of(conn, PLURAL, uid)
        return any(order.node == node and not _is_ending(order) for order in orders)

    def _check_runs_on(self, conn: Connection, uid: str, node: str) -> None:
        if not self._runs_on(conn, uid, node):
            raise ServiceNotFound(f"The node {node!r} runs no service of the uid {uid!r}.")


def _origin(service: Service, node: str) -> str:
    """The node as the rows of a service have it: empty where it has only one."""
    return node if service.specification.edge.selector else ""


def _is_ending(order: Order) -> bool:
    return order.operation is Operation.DELETE


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


def _picture(uid: str, sample_id: str) -> str:
    return f"joint/{uid}/samples/{sample_id}"


class RowReport(BaseModel):
    run: Annotated[str, Field(min_length=1, max_length=64, pattern="^[0-9a-zA-Z_-]+$")]
    """Which start of which worker they are of."""
    batch: Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
    """Rises with each report of a run."""
    rows: Annotated[list[dict[str, Any]], Field(max_length=MOST_ROWS)]
    """Oldest first: {at: seconds since 1970, size: [width, height], bbox, labels, scores, sample: id, answered_by:
    edge, cloud or edge_fallback, is_hard, model_name, model_version}."""


def read_rows(body: bytes) -> RowReport:
    """Raises BadFrame, BadInput."""
    report = read(body)
    return checked(lambda: RowReport.model_validate(report))
