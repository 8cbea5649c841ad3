"""What every endpoint of nodes needs of a request. Other capabilities learn by it which node reports to them."""

from __future__ import annotations

from starlette.requests import HTTPConnection, Request

from app.kit.errors import Forbidden
from app.kit.web.auth import caller_of
from app.nodes.links import Links
from app.nodes.service import Nodes


def nodes_of(request: HTTPConnection) -> Nodes:
    found = request.app.state.nodes
    assert isinstance(found, Nodes)
    return found


def links_of(request: HTTPConnection) -> Links:
    """Of this application: made with its first connection. For the event loop."""
    state = request.app.state
    if not hasattr(state, "node_links"):
        state.node_links = Links()
    links: Links = state.node_links
    return links


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
