"""What every endpoint of nodes needs of a request. Other capabilities learn by it which node reports to them."""

from __future__ import annotations

from starlette.requests import Request

from app.kit.errors import Forbidden
from app.kit.web.auth import caller_of
from app.kit.web.state import AppState, FromContainer
from app.nodes.links import Links
from app.nodes.service import Nodes

nodes_of = FromContainer[Nodes]("nodes")
links_of = AppState("node_links", Links)
"""For the event loop."""


def node_of(request: Request) -> str:
    """Name of the node that asks; empty when it is a user."""
    return caller_of(request).node


def this_node(request: Request) -> str:
    """The node in the path, where it is the one that asks. Raises Forbidden."""
    name = str(request.path_params["node"])
    if name != node_of(request):
        raise Forbidden(f"This is for the node {name!r}.", hint="A node's token is good for its own paths.")
    return name


def require_admin(request: Request) -> None:
    """Raises Forbidden."""
    if not caller_of(request).is_admin:
        raise Forbidden("Nodes are added and removed by administrators.", hint="Ask one of them.")
