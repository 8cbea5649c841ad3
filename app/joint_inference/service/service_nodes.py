"""On which nodes a service runs, by what they were ordered."""

from __future__ import annotations

from sqlalchemy import Connection

from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.model.resource import PLURAL
from app.nodes.model import Operation
from app.nodes.service import Nodes


def running_nodes(nodes: Nodes, conn: Connection, uid: str) -> set[str]:
    """Returns the names of the nodes of a service. One whose worker is to end does not count: the worker that took its
    place says how things are."""
    return {order.node for order in nodes.orders_of(conn, PLURAL, uid) if order.operation is not Operation.DELETE}


def check_runs_on(nodes: Nodes, conn: Connection, uid: str, node: str) -> None:
    """Checks that a service runs on a node.

    Args:
        uid: of the service.
        node: its name.

    Raises:
        ServiceNotFound: The node does not run it.
    """
    if node not in running_nodes(nodes, conn, uid):
        raise ServiceNotFound(f"The node {node!r} runs no service of the uid {uid!r}.")
