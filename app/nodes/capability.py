"""The declaration of the capability nodes, on the web server's side. `modelmill node`, the agent, is another program:
see app.cli."""

from __future__ import annotations

from pathlib import Path

from app.kit.capability import Capability, WebPart, command_group
from app.kit.web.navigation import Area, NavigationEntry


def _declare_web() -> WebPart:
    from app.nodes import api, link_api
    from app.nodes.pages import ROUTES as PAGES

    return WebPart(operations=[*api.OPERATIONS, *link_api.OPERATIONS], pages=PAGES, routes=link_api.ROUTES)


NODES = Capability(
    "nodes",
    web=_declare_web,
    commands=command_group("nodes", "app.nodes.cli"),
    actors=("actors.nodes",),
    navigation=(NavigationEntry(Area.EDGE, 40, "Nodes", "/ui/nodes", "nodes", is_searched=True),),
    tables=("app.nodes.store", "app.nodes.certificate_store"),
    migrations=Path(__file__).parent / "migrations",
)
