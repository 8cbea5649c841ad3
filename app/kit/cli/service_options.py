"""Which service a command talks to, and how it prints: options that such commands share."""

from __future__ import annotations

import os
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8080"
TOKEN = "MODELMILL_TOKEN"  # noqa: S105  # the variable's name
"""Not an option: the command line of a process can be read by everybody on the machine."""

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Address of the service; else MODELMILL_URL, else {DEFAULT_URL}."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def url_of(context: typer.Context, url: str | None) -> str:
    """The one given to the command counts, then the one given before it (or the environment's)."""
    return url or context.obj or DEFAULT_URL


def token() -> str:
    return os.environ.get(TOKEN, "").strip()
