"""Metrics of joint inference at the time of a scrape: nodes, services by state, unstored orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.model.drift import DriftMeasurement
from app.joint_inference.model.resource import PLURAL
from app.joint_inference.model.sources import SourceState, SourceStatus, source_states
from app.joint_inference.model.status import ConditionType
from app.kit import clock
from app.kit.sql import Database
from app.kit.sql.timeboxed_query import TimeboxedQuery
from app.nodes.model import Node, Side
from app.nodes.service import Nodes

MOST_SERVICES = 500
SERVICE = ("owner", "namespace", "service")
MOST_SOURCES = 2000
SOURCE = (*SERVICE, "node", "source")
OF_SOURCES = (
    ("frames", "pictures", "Pictures of a source that the small model of a service has answered."),
    ("hard", "hard", "Hard pictures among them."),
    ("still", "still", "Pictures that were skipped because nothing had moved."),
    ("damaged", "damaged", "Pictures that could not be read."),
)
COUNTED = (
    ("inferenceNumber", "pictures", "Pictures that the small model of a service has answered."),
    ("hardExampleNumber", "hard", "Of them those that were hard."),
    ("uploadNumber", "cloud_answers", "Of them those that the big model has answered."),
    ("fallbackNumber", "fallbacks", "Hard ones that the big model did not answer."),
    ("bytesUploaded", "uploaded_bytes", "Bytes that went up to the big model."),
    ("bytesSaved", "saved_bytes", "Bytes that the byte budget held back."),
)
STATES = (ConditionType.PENDING, ConditionType.RUNNING, ConditionType.FAILED)


@dataclass(frozen=True)
class JointSnapshot:
    """What a scrape reads at once."""

    nodes: list[Node]
    pending_orders: int
    services: Mapping[str, int]
    """State → how many."""
    figures: Sequence[tuple[tuple[str, str, str], Mapping[str, Any]]]
    """Owner, namespace and name of each service, and the last taskInfo, of all its edge nodes together."""
    drifts: Sequence[tuple[tuple[str, str, str], DriftMeasurement]]
    """Of the services that are watched."""
    sources: Sequence[tuple[tuple[str, ...], SourceState]]
    """Owner, namespace, name, node and source of each source on a node that is online, and its report."""


class JointCollector(Collector):
    """Without the database nothing is told."""

    def __init__(self, database: Database, nodes: Nodes, *, now: Callable[[], datetime] = clock.now) -> None:
        self._nodes = nodes
        self._query = TimeboxedQuery(database, self._look)
        self._now = now

    def collect(self) -> Iterable[Metric]:
        seen = self._query.take()
        if seen is not None:
            yield _of_nodes(seen.nodes, self._now())
            yield from _of_dropped_reports(seen.nodes)
            services = GaugeMetricFamily(
                "modelmill_joint_services", "JointInferenceServices by their current condition.", labels=["state"]
            )
            for state in STATES:
                services.add_metric([state.value], seen.services.get(state.value, 0))
            yield services
            yield from _of_services(seen.figures)
            yield _of_drifts(seen)
            yield from _of_sources(seen.sources)
            yield GaugeMetricFamily(
                "modelmill_node_orders_pending",
                "Orders that their nodes have not stored yet.",
                value=seen.pending_orders,
            )

    def _look(self, conn: Connection) -> JointSnapshot:
        nodes, pending = self._nodes.all_with_pending(conn)
        figures, drifts = store.figures(conn, MOST_SERVICES), []
        for uid, drift in store.drifts_of(conn).items():
            service = store.by_uid(conn, uid)
            if service is not None and service.gone_at is None and drift.measured is not None:
                drifts.append(((service.owner, service.namespace, service.name), drift.measured))
        sources = _list_sources(conn, [node for node in nodes if node.is_online(self._now())])
        return JointSnapshot(nodes, pending, store.count_by_state(conn), figures, drifts[:MOST_SERVICES], sources)


def _list_sources(conn: Connection, nodes: Iterable[Node]) -> list[tuple[tuple[str, ...], SourceState]]:
    sources = list[tuple[tuple[str, ...], SourceState]]()
    for node in nodes:
        for worker in node.report.workers:
            states = list(source_states(worker.detail)) if worker.key.kind == PLURAL else []
            service = store.by_uid(conn, worker.key.uid) if states else None
            if service is not None and service.gone_at is None:
                labels = (service.owner, service.namespace, service.name, node.name)
                sources += [((*labels, state.name), state) for state in states]
    return sources[:MOST_SOURCES]


def _of_sources(sources: Sequence[tuple[tuple[str, ...], SourceState]]) -> Iterable[Metric]:
    for field, name, text in OF_SOURCES:
        family = CounterMetricFamily(f"modelmill_joint_source_{name}", text, labels=SOURCE)
        for labels, state in sources:
            family.add_metric(labels, getattr(state, field))
        yield family
    signal = GaugeMetricFamily("modelmill_joint_source_signal", "1 while a source delivers pictures.", labels=SOURCE)
    for labels, state in sources:
        signal.add_metric(labels, int(state.status is SourceStatus.RUNNING))
    yield signal


def _of_services(figures: Sequence[tuple[tuple[str, str, str], Mapping[str, Any]]]) -> Iterable[Metric]:
    """By service."""
    for key, name, text in COUNTED:
        family = CounterMetricFamily(f"modelmill_joint_{name}", text, labels=SERVICE)
        for labels, reported in figures:
            if isinstance(value := reported.get(key), int | float):
                family.add_metric(labels, value)
        yield family
    rate = GaugeMetricFamily("modelmill_joint_pictures_per_second", "Pictures answered a second.", labels=SERVICE)
    latency = GaugeMetricFamily(
        "modelmill_joint_answer_seconds", "Time to answer of the last samples.", labels=(*SERVICE, "side", "quantile")
    )
    for labels, reported in figures:
        if isinstance(fps := reported.get("fps"), int | float):
            rate.add_metric(labels, fps)
        for side in ("edge", "cloud"):
            for quantile, key in (("0.5", f"{side}MsP50"), ("0.95", f"{side}MsP95")):
                if isinstance(ms := reported.get(key), int | float):
                    latency.add_metric((*labels, side, quantile), ms / 1000)
    yield from (rate, latency)


def _of_drifts(seen: JointSnapshot) -> Metric:
    family = GaugeMetricFamily(
        "modelmill_joint_drift",
        "Population stability index of what a watched service sees, against its reference.",
        labels=(*SERVICE, "of"),
    )
    for labels, measured in seen.drifts:
        for name, value in (("scores", measured.scores), ("classes", measured.classes)):
            if value is not None:
                family.add_metric((*labels, name), value)
    return family


def _of_dropped_reports(nodes: Iterable[Node]) -> tuple[Metric, Metric]:
    lost = CounterMetricFamily(
        "modelmill_node_reports_lost",
        "Reports of workers that a node has dropped because too many were waiting for the web server.",
        labels=["node"],
    )
    refused = CounterMetricFamily(
        "modelmill_node_reports_refused",
        "Reports of workers that a node has dropped because the web server refused them.",
        labels=["node"],
    )
    for node in nodes:
        lost.add_metric([node.name], node.report.lost_reports)
        refused.add_metric([node.name], node.report.refused_reports)
    return lost, refused


def _of_nodes(nodes: Iterable[Node], now: datetime) -> Metric:
    family = GaugeMetricFamily("modelmill_nodes", "Nodes by side; are they heard?", labels=["side", "state"])
    counts = Counter((node.side, node.is_online(now)) for node in nodes)
    for side in Side:
        for is_online, state in ((True, "online"), (False, "offline")):
            family.add_metric([side.value, state], counts[side, is_online])
    return family
