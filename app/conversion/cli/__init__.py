"""The commands of conversion: convert, jobs, canary, saturation, … Each command imports its heavy modules itself.

A command parses, calls the client (or a local use case) and prints; results go to stdout, errors to stderr.
"""

from __future__ import annotations

import typer

from app.conversion.cli import archive, canary, convert, jobs, local, reproduce, saturation, verify


def register(app: typer.Typer) -> None:
    """Add the commands to the `modelmill` command."""
    app.command("convert", epilog=convert.EPILOG)(convert.convert)
    app.add_typer(jobs.commands, name="jobs")
    app.add_typer(archive.commands, name="archive")
    app.command("canary")(canary.canary)
    app.command("verify", epilog=verify.EPILOG)(verify.verify)
    app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
    app.command("saturation")(saturation.saturation)
    app.command("inspect")(local.inspect)
    app.command("run")(local.run)
