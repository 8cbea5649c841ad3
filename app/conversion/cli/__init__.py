"""The commands of conversion: convert, jobs, archive, inspect, run. Heavy libraries are imported by the command that
needs them.

A command parses, calls the client (or a local use case) and prints; results go to stdout, troubles to stderr.
"""

from __future__ import annotations

import typer

from app.conversion.cli import archive, convert, jobs, local


def register(app: typer.Typer) -> None:
    """Add the commands to the `modelmill` command."""
    app.command("convert", epilog=convert.EPILOG)(convert.convert)
    app.add_typer(jobs.commands, name="jobs")
    app.add_typer(archive.commands, name="archive")
    app.command("inspect")(local.inspect)
    app.command("run")(local.run)
