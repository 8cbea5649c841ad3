"""What exchange is to the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kit.capability import Capability, WebPart

if TYPE_CHECKING:
    import typer


def _web() -> WebPart:
    from app.exchange.api import OPERATIONS
    from app.exchange.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.exchange.cli import register

    register(root)


EXCHANGE = Capability(
    "exchange",
    web=_web,
    commands=_commands,
    actors=("actors.exchange",),
)
