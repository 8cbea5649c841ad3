"""The group of the commands about nodes, and how each of them reaches the web."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import token, url_of

if TYPE_CHECKING:
    from app.nodes.client import NodesClient

commands = typer.Typer(
    help="The machines that run models: list, add, remove. `modelmill node` is what runs on each.",
    no_args_is_help=True,
    epilog=EPILOG,
)


def client_of(context: typer.Context, url: str | None) -> NodesClient:
    from app.nodes.client import NodesClient

    return NodesClient(url_of(context, url), token=token())
