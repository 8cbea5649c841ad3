"""`modelmill archive rebuild`, for operators: it works directly on the database and the object store, not on the
service."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="As given to `modelmill up`; default: the settings'.")
]


def rebuild(data_dir: DataDir = None) -> None:
    """Make the index of the archive anew from the object store alone; also while the service runs."""
    from app.bootstrap.accounts import MIGRATIONS, settings_in
    from app.bootstrap.container import assemble
    from app.kit.sql.migrations import upgrade

    with closing(assemble(settings_in(data_dir))) as container:
        upgrade(container.database, MIGRATIONS)
        made = container.archive.rebuild()
    typer.echo(f"{made.jobs} jobs are in the archive; {made.removed} rows of jobs that are gone were removed.")
    if made.unreadable:
        typer.echo(f"{made.unreadable} descriptions cannot be read; the log says why.", err=True)
