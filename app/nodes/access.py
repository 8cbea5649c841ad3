"""Request dependencies shared by all endpoints of nodes. Other capabilities use it to identify the reporting node.

A node has one connection: a second one supersedes the first, which may be dead unnoticed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from starlette.requests import Request

from app.kit.errors import Forbidden
from app.kit.web.auth import caller_of, only_for_administrators, user_of
from app.kit.web.state import AppState, FromContainer
from app.nodes.model import REPEAT_S, Order
from app.nodes.service import Nodes


class SentOrders:
    """Records when each unacknowledged order was sent to a node."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def due(self, pending: Sequence[Order], at: float) -> list[Order]:
        """The pending orders to send now: new ones, and those sent more than REPEAT_S ago.

        Args:
            at: monotonic seconds.
        """
        self._at = {order.seq: self._at[order.seq] for order in pending if order.seq in self._at}
        due = [order for order in pending if at - self._at.get(order.seq, at - REPEAT_S) >= REPEAT_S]
        self._at.update({order.seq: at for order in due})
        return due

    def wait_s(self, at: float) -> float:
        """Returns the seconds until an order is due again."""
        return max(0.0, min(self._at.values(), default=at) + REPEAT_S - at)

    def forget(self) -> None:
        """Makes all orders due at once."""
        self._at.clear()


class Links:
    """The connections of nodes to this process. Only for its event loop."""

    def __init__(self) -> None:
        self._connections: dict[str, asyncio.Event] = {}
        self._sent: dict[str, SentOrders] = {}

    @contextlib.contextmanager
    def connect(self, node: str) -> Iterator[asyncio.Event]:
        """Registers the connection of this node. The event is set when another connection supersedes it."""
        former, superseded = self._connections.get(node), asyncio.Event()
        if former is not None:
            former.set()
        self._connections[node] = superseded
        try:
            yield superseded
        finally:
            if self._connections.get(node) is superseded:
                del self._connections[node]

    def sent_to(self, node: str) -> SentOrders:
        """Returns the orders that earlier answers sent to a polling node."""
        return self._sent.setdefault(node, SentOrders())


nodes_of = FromContainer[Nodes]("nodes")
links_of = AppState("node_links", Links)
"""Only for the event loop."""


def node_of(request: Request) -> str:
    """Returns the name of the calling node; empty if a user calls."""
    return caller_of(request).node


def this_node(request: Request) -> str:
    """Returns the node in the path.

    Raises:
        Forbidden: Another one calls.
    """
    name = str(request.path_params["node"])
    if name != node_of(request):
        raise Forbidden(f"This is for the node {name!r}.", hint="A node's token is good for its own paths.")
    return name


def owns(request: Request, name: str) -> bool:
    """Returns whether the caller may label this node and determine who may use it and its cameras."""
    return caller_of(request).is_admin or nodes_of(request).access.is_owner(user_of(request), name)


def require_owner(request: Request) -> None:
    """Admits owners of the node in the path, and nobody else."""
    if not owns(request, request.path_params["name"]):
        raise Forbidden("This is for the owners of a node and for administrators.", hint="Ask one of them.")


require_admin = only_for_administrators("Nodes are added and removed by administrators.")
