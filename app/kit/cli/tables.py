"""Output of lists: a table or lines for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:  # slow to import, and not every command prints a table
    from rich.console import Console
    from rich.table import Table

PIPE_COLUMNS = 240


def wide_console() -> Console:
    """Uses the width of a terminal; a pipe gets complete lines."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=PIPE_COLUMNS)


def table_of(*columns: str) -> Table:
    """Creates an empty table without lines, its title on the left. Its first column is never wrapped."""
    from rich.table import Table

    table = Table(*columns, box=None, header_style="bold", title_justify="left", caption_justify="left")
    table.columns[0].no_wrap = True  # so that it can be copied and found with grep
    return table


def print_record(record: Any, text: str, *, as_json: bool, is_note: bool = False) -> None:
    """Prints what a command has shown, created, changed or removed.

    Args:
        record: as returned by the service; of something removed, what identified it.
        text: the same for people.
        as_json: prints JSON instead.
        is_note: the text goes to stderr; JSON never does.
    """
    typer.echo(json.dumps(record, indent=2) if as_json else text, err=is_note and not as_json)


def print_table(records: Any, table: Callable[[Any], Table], nothing: str, *, as_json: bool) -> None:
    """Prints records as a table.

    Args:
        records: as returned by the service.
        table: makes a table of them.
        nothing: the sentence to print if there are none.
        as_json: prints JSON instead.
    """
    if as_json:
        typer.echo(json.dumps(records, indent=2))
    elif records:
        wide_console().print(table(records))
    else:
        typer.echo(nothing)


def print_lines(
    records: Sequence[JsonObject], line: Callable[[JsonObject], str], nothing: str, *, as_json: bool
) -> None:
    """Prints records, one line each.

    Args:
        records: as returned by the service.
        line: makes one of a record.
        nothing: the sentence to print if there are none.
        as_json: prints JSON instead.
    """
    if as_json:
        typer.echo(json.dumps(records, indent=2))
    else:
        typer.echo("\n".join(map(line, records)) or nothing)
