"""How commands print what they list: a table or lines for eyes, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:  # it takes a while, and not every command prints a table
    from rich.console import Console
    from rich.table import Table

PIPE_COLUMNS = 240


def wide_console() -> Console:
    """A terminal is as wide as it is; a pipe takes whole lines."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PIPE_COLUMNS)


def table_of(*columns: str) -> Table:
    """An empty table without lines. What is in its first column is never broken."""
    from rich.table import Table

    table = Table(*columns, box=None, header_style="bold")
    table.columns[0].no_wrap = True  # to be copied, and to be found by grep
    return table


def print_table(records: Any, table: Callable[[Any], Table], nothing: str, *, as_json: bool) -> None:
    """What a command lists, as a table.

    Args:
        records: as the service answers them.
        table: makes a table of them.
        nothing: the sentence in its place where there are none.
        as_json: as JSON, whatever there is.
    """
    if as_json:
        typer.echo(json.dumps(records, indent=2))
    elif records:
        wide_console().print(table(records))
    else:
        typer.echo(nothing)


def print_lines(
    records: Sequence[dict[str, Any]], line: Callable[[dict[str, Any]], str], nothing: str, *, as_json: bool
) -> None:
    """What a command lists, a line each.

    Args:
        records: as the service answers them.
        line: makes one of a record.
        nothing: the sentence in their place where there are none.
        as_json: as JSON, whatever there is.
    """
    if as_json:
        typer.echo(json.dumps(records, indent=2))
    else:
        typer.echo("\n".join(map(line, records)) or nothing)
