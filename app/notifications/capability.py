"""What notifications are to the product."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.kit.capability import Capability, WebPart

if TYPE_CHECKING:
    import typer


def _web() -> WebPart:
    from app.notifications.api import OPERATIONS
    from app.notifications.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.notifications.cli import commands

    root.add_typer(commands, name="notifications")


NOTIFICATIONS = Capability(
    "notifications",
    web=_web,
    commands=_commands,
    actors=("actors.notifications",),
    tables=("app.notifications.store.tables",),
    migrations=Path(__file__).parent / "migrations",
)
