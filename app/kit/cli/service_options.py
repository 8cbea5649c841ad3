"""Shared options: which service or data a command works on, and its output format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8080"
TOKEN = "MODELMILL_TOKEN"  # noqa: S105  # the variable's name
"""Not an option: everybody on the machine can read the command line of a process."""

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Address of the service; default: MODELMILL_URL, or {DEFAULT_URL}."),
]
Limit = Annotated[int, typer.Option(min=1, help="Largest number of entries, newest first.")]
Allowed = Annotated[
    list[str] | None,
    typer.Argument(metavar="[USER|@GROUP]…", help="Users and groups that have access; they replace the previous ones."),
]
Everybody = Annotated[bool, typer.Option("--everybody", help="Give access to everybody who is signed in.")]
Administrators = Annotated[bool, typer.Option("--administrators", help="Give access to administrators only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Data folder, as given to `modelmill up`; default: that of the settings."
    ),
]
"""Of commands that work on the data themselves, not on the service."""


def url_of(context: typer.Context, url: str | None) -> str:
    """The value given to the command takes precedence over the one given before it (or the environment's)."""
    return url or context.obj or DEFAULT_URL


def token() -> str:
    """Returns the API token of the environment; empty: none."""
    return os.environ.get(TOKEN, "").strip()
