"""Orders the hosts of stages: those of the catalog, and jobs' own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection

from app.kit.sql import Database, new_secret
from app.nodes.errors import NodeNotFound
from app.nodes.model import Node, Operation, Order, Side
from app.video import store
from app.video.model.job import SERVICES, ServicesContent, StageHost
from app.video.model.kinds import Stage
from app.video.model.plan import Role
from app.video.service.orders import GENERATION, NAMESPACE, is_ordered
from app.video.service.resources import Resources, host_key, videos_of

MOST_PEERS = 16
"""To so many other hosts a node measures its links."""


class StageDeployment:
    """Orders and withdraws the hosts of stages.

    Args:
        processes: How many compute stages on each node.
    """

    def __init__(self, database: Database, resources: Resources, *, processes: int) -> None:
        self.database = database
        self.resources = resources
        self.processes = processes

    def reconcile(self, now: datetime) -> None:
        """Orders each node what it is to serve now. May run at any time: what is ordered already is not ordered again.

        A job's own stages, and with them its user's models, go only to nodes that this user may use."""
        nodes, changed_nodes = self.resources.nodes.all(), set[str]()
        with self.database.read() as conn:
            catalogue, jobs = stages_to_serve(conn)
            orders = self._orders_of_all(conn)
        secrets = {name: secret for name, given in orders.items() if (secret := _secret_of(given))}
        allowed = {owner: {node.name for node in self.resources.nodes.access.seen_by(owner)} for owner in jobs}
        for node in nodes:
            stages = dict[str, Stage]()
            if _serves(node, now):
                stages |= catalogue
                for owner in jobs:
                    stages |= jobs[owner] if node.name in allowed[owner] else {}
            peers = _list_peers(node, self.resources.hosts_among(nodes, node.name, now, secrets))
            changed_nodes |= self._order(node, stages, orders[node.name], peers)
        for name in changed_nodes:
            self.resources.nodes.notify(name)

    def renew_secrets(self) -> set[str]:
        """Gives each host of stages another secret, of which jobs hear by their next order. Returns the nodes to be
        notified."""
        changed_nodes = set[str]()
        for node in self.resources.nodes.all():
            with self.database.write() as conn:
                orders = self._list_orders(conn, node.name)
                standing = [order for order in orders if order.operation is not Operation.DELETE]
                for order in standing:
                    changed_nodes |= self._put_order(conn, node.name, {**order.content, "secret": new_secret()})
        return changed_nodes

    def _order(
        self, node: Node, stages: Mapping[str, Stage], orders: list[Order], peers: tuple[StageHost, ...]
    ) -> set[str]:
        """Returns the node if its order changed."""
        current_secret = _secret_of(orders)
        if not stages and not current_secret:
            return set()
        if (
            current_secret
            and stages
            and is_ordered(orders, node.name, self._build_content(stages, current_secret, peers))
        ):
            return set()
        with self.database.write() as conn:
            fresh = self._list_orders(conn, node.name)
            if not stages:
                return set(self.resources.nodes.withdraw(conn, SERVICES, host_key(node.name).uid))
            secret = _secret_of(fresh) or new_secret()
            return self._put_order(conn, node.name, self._build_content(stages, secret, peers))

    def _orders_of_all(self, conn: Connection) -> defaultdict[str, list[Order]]:
        orders = defaultdict[str, list[Order]](list)
        for order in self.resources.nodes.orders_of_kind(conn, SERVICES):
            if order.key == host_key(order.node):
                orders[order.node].append(order)
        return orders

    def _list_orders(self, conn: Connection, node: str) -> list[Order]:
        return self.resources.nodes.orders_of(conn, SERVICES, host_key(node).uid)

    def _put_order(self, conn: Connection, node: str, content: dict[str, object]) -> set[str]:
        try:
            is_new = self.resources.nodes.order(
                conn, node, host_key(node), namespace=NAMESPACE, name=node, generation=GENERATION, content=content
            )
        except NodeNotFound:
            return set()
        return {node} if is_new else set()

    def _build_content(
        self, stages: Mapping[str, Stage], secret: str, peers: tuple[StageHost, ...]
    ) -> dict[str, object]:
        return ServicesContent(stages, secret, peers, self.processes).to_json()


def stages_to_serve(conn: Connection) -> tuple[dict[str, Stage], dict[str, dict[str, Stage]]]:
    """The stages of the catalog by name; and by owner, under `<uid>/<name>`, those of jobs that have not ended and have
    another stage of that name than the catalog."""
    catalogue = {listed.spec.name: listed.stage for listed in store.all_stages(conn)}
    jobs = defaultdict[str, dict[str, Stage]](dict)
    for stored in store.list_unended(conn):
        for stage in stored.job.stages:
            if catalogue.get(stage.name) != stage:
                jobs[stored.job.owner][f"{stored.job.uid}/{stage.name}"] = stage
    return catalogue, dict(jobs)


def _list_peers(node: Node, hosts: Iterable[StageHost]) -> tuple[StageHost, ...]:
    """Returns the hosts to which a node measures its links: those of the cloud first. Not all, since each would measure
    all others, and each node that comes would change the orders of all."""
    others = sorted((host for host in hosts if host.node != node.name), key=lambda host: host.role != Role.CLOUD)
    return tuple(others[:MOST_PEERS])


def _serves(node: Node, now: datetime) -> bool:
    return node.side in (Side.CLOUD, Side.HOST) or bool(videos_of(node, now).videos)


def _secret_of(orders: Iterable[Order]) -> str:
    """Of the order in force; empty: there is none."""
    return next((str(o.content.get("secret", "")) for o in orders if o.operation is not Operation.DELETE), "")
