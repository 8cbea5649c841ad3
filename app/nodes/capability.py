"""What nodes are to the product, on the web's side. `modelmill node`, the agent, is another program: see app.cli."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry

if TYPE_CHECKING:
    import typer


def _web() -> WebPart:
    from app.nodes.api import OPERATIONS, ROUTES
    from app.nodes.pages import ROUTES as PAGES

    return WebPart(operations=OPERATIONS, pages=PAGES, routes=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.nodes.cli import commands

    root.add_typer(commands, name="nodes")


NODES = Capability(
    "nodes",
    web=_web,
    commands=_commands,
    actors=("actors.nodes",),
    navigation=(NavigationEntry(Area.EDGE, 40, "Nodes", "/ui/nodes", "nodes", is_searched=True),),
    tables=("app.nodes.tables",),
)
