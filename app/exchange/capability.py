"""The declaration of the capability exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kit.capability import Capability, web_part

if TYPE_CHECKING:
    import typer


def _commands(root: typer.Typer) -> None:
    from app.exchange.cli import register

    register(root)


EXCHANGE = Capability(
    "exchange",
    web=web_part("app.exchange.api", "app.exchange.pages"),
    commands=_commands,
    actors=("actors.exchange",),
)
