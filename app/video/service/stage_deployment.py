"""What nodes are told to serve: the stages of the catalogue, and those of jobs that are others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection

from app.kit.sql import Database, new_secret
from app.nodes.errors import NodeNotFound
from app.nodes.model import Node, Operation, Order, Side
from app.video import store
from app.video.model.job import SERVICES, ServicesContent, StageHost
from app.video.model.kinds import Stage
from app.video.service.orders import GENERATION, NAMESPACE, tells
from app.video.service.resources import Resources, key_of, videos_of


class StageDeployment:
    """processes: that compute stages on a node."""

    def __init__(self, database: Database, resources: Resources, *, processes: int) -> None:
        self.database = database
        self.resources = resources
        self.processes = processes

    def reconcile(self, now: datetime) -> None:
        """Twice does no harm."""
        nodes, told = self.resources.nodes.all(), set[str]()
        with self.database.read() as conn:
            stages = stages_to_serve(conn)
            orders = {node.name: self._orders(conn, node.name) for node in nodes}
        for node in nodes:
            told |= self._tell(node, stages if _serves(node, now) else {}, orders[node.name], nodes, now)
        for name in told:
            self.resources.nodes.nudge(name)

    def renew_secrets(self) -> set[str]:
        """Another for each host: jobs are told with their next order. Returns the nodes to be nudged."""
        told = set[str]()
        for node in self.resources.nodes.all():
            with self.database.write() as conn:
                orders = self._orders(conn, node.name)
                standing = [order for order in orders if order.operation is not Operation.DELETE]
                for order in standing:
                    told |= self._put(conn, node.name, {**order.content, "secret": new_secret()})
        return told

    def _tell(
        self, node: Node, stages: Mapping[str, Stage], orders: list[Order], nodes: list[Node], now: datetime
    ) -> set[str]:
        """It, if it must hear of something new."""
        peers = tuple(host for host in self.resources.hosts_among(nodes, node.name, now) if host.node != node.name)
        known = _secret_of(orders)
        if not stages and not known:
            return set()
        if known and stages and tells(orders, node.name, self._content(stages, known, peers)):
            return set()
        with self.database.write() as conn:
            fresh = self._orders(conn, node.name)
            if not stages:
                return set(self.resources.nodes.withdraw(conn, SERVICES, key_of(node.name).uid))
            secret = _secret_of(fresh) or new_secret()
            return self._put(conn, node.name, self._content(stages, secret, peers))

    def _orders(self, conn: Connection, node: str) -> list[Order]:
        return self.resources.nodes.orders_of(conn, SERVICES, key_of(node).uid)

    def _put(self, conn: Connection, node: str, content: dict[str, object]) -> set[str]:
        try:
            is_new = self.resources.nodes.order(
                conn, node, key_of(node), namespace=NAMESPACE, name=node, generation=GENERATION, content=content
            )
        except NodeNotFound:
            return set()
        return {node} if is_new else set()

    def _content(self, stages: Mapping[str, Stage], secret: str, peers: tuple[StageHost, ...]) -> dict[str, object]:
        return ServicesContent(stages, secret, peers, self.processes).to_json()


def stages_to_serve(conn: Connection) -> dict[str, Stage]:
    """Of the catalogue by name; of jobs that have not ended, under `<uid>/<name>`, where theirs is another one."""
    found = {listed.spec.name: listed.stage for listed in store.all_stages(conn)}
    own = {
        f"{kept.job.uid}/{stage.name}": stage
        for kept in store.unended(conn)
        for stage in kept.job.stages
        if found.get(stage.name) != stage
    }
    return {**found, **own}


def _serves(node: Node, now: datetime) -> bool:
    return node.side in (Side.CLOUD, Side.HOST) or bool(videos_of(node, now).videos)


def _secret_of(orders: Iterable[Order]) -> str:
    """Of the order that stands."""
    return next((str(o.content.get("secret", "")) for o in orders if o.operation is not Operation.DELETE), "")
