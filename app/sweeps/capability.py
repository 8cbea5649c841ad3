"""What sweeps are to the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry

if TYPE_CHECKING:
    import typer


def _web() -> WebPart:
    from app.sweeps.api import OPERATIONS
    from app.sweeps.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.sweeps.cli import commands

    root.add_typer(commands, name="sweeps")


SWEEPS = Capability(
    "sweeps",
    web=_web,
    commands=_commands,
    actors=("actors.sweeps",),
    navigation=(NavigationEntry(Area.CONVERSION, 40, "Sweeps", "/ui/sweeps", "sweeps"),),
    tables=("app.sweeps.store",),
)
