"""Metrics of joint inference at the time of a scrape: nodes, services by state, unstored orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from app.joint_inference import store
from app.joint_inference.model.status import ConditionType
from app.kit import clock
from app.kit.sql import Database
from app.kit.sql.timeboxed_query import TimeboxedQuery
from app.nodes.model import Node, Side
from app.nodes.service import Nodes

STATES = (ConditionType.PENDING, ConditionType.RUNNING, ConditionType.FAILED)


@dataclass(frozen=True)
class JointSnapshot:
    """What a scrape reads at once."""

    nodes: list[Node]
    pending_orders: int
    services: Mapping[str, int]
    """State → how many."""


class JointCollector(Collector):
    """Without the database nothing is told. now: for tests."""

    def __init__(self, database: Database, nodes: Nodes, *, now: Callable[[], datetime] = clock.now) -> None:
        self._nodes = nodes
        self._query = TimeboxedQuery(database, self._look)
        self._now = now

    def collect(self) -> Iterable[Metric]:
        seen = self._query.take()
        if seen is not None:
            yield _of_nodes(seen.nodes, self._now())
            services = GaugeMetricFamily(
                "modelmill_joint_services", "JointInferenceServices by their current condition.", labels=["state"]
            )
            for state in STATES:
                services.add_metric([state.value], seen.services.get(state.value, 0))
            yield services
            yield GaugeMetricFamily(
                "modelmill_node_orders_pending",
                "Orders that their nodes have not stored yet.",
                value=seen.pending_orders,
            )

    def _look(self, conn: Connection) -> JointSnapshot:
        nodes, pending = self._nodes.all_with_pending(conn)
        return JointSnapshot(nodes, pending, store.count_by_state(conn))


def _of_nodes(nodes: Iterable[Node], now: datetime) -> Metric:
    family = GaugeMetricFamily("modelmill_nodes", "Nodes by side; are they heard?", labels=["side", "state"])
    counts = Counter((node.side, node.is_online(now)) for node in nodes)
    for side in Side:
        for is_online, state in ((True, "online"), (False, "offline")):
            family.add_metric([side.value, state], counts[side, is_online])
    return family
