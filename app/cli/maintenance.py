"""Commands for operators that work directly on the data: the SQL database, the index of the archive, and SFTP."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import AsJson, DataDir
from app.kit.cli.tables import print_record

if TYPE_CHECKING:
    from app.kit.sql import Database

app = typer.Typer(help="The SQL database: its version and its secrets.", no_args_is_help=True, epilog=EPILOG)


@app.command()
def upgrade(data_dir: DataDir = None) -> None:
    """Upgrade the database to the version of this program. The web server does this when it starts."""
    from app.bootstrap.accounts import MIGRATIONS
    from app.kit.sql import migrations

    with _open_database(data_dir) as database:
        before = migrations.current(database)
        migrations.upgrade(database, MIGRATIONS)
        typer.echo(f"{before or 'empty'} → {migrations.current(database)}")


@app.command()
def current(data_dir: DataDir = None) -> None:
    """Print the version of the database."""
    from app.kit.sql import migrations

    with _open_database(data_dir) as database:
        typer.echo(migrations.current(database) or "empty")


@app.command("renew-secrets")
def renew_secrets(data_dir: DataDir = None) -> None:
    """Create new secrets for services, video jobs and nodes after a change of the secret key, if the old ones cannot be
    decrypted.

    Run it while no process of Modelmill runs. Nodes receive their orders again, so their workers restart.
    """
    from app.bootstrap.accounts import open_accounts, settings_in
    from app.bootstrap.encryption import renew_secrets as renewed

    accounts = open_accounts(settings_in(data_dir))
    with closing(accounts.database):
        typer.echo(f"{renewed(accounts)} secrets are new, and this secret key is the installation's.")


def _open_database(data_dir: Path | None) -> closing[Database]:
    from app.kit.sql import Database
    from app.settings import load_settings

    settings = load_settings()
    if data_dir:
        settings = settings.model_copy(update={"data_dir": data_dir.expanduser().absolute()})
    return closing(Database(settings.database))


def rebuild(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Rebuild the index of the archive from the object store. The service may be running."""
    from app.bootstrap.accounts import MIGRATIONS, settings_in
    from app.bootstrap.container import assemble
    from app.kit.sql.migrations import upgrade

    settings = settings_in(data_dir)
    with closing(assemble(settings)) as container:
        upgrade(container.database, MIGRATIONS)
        made = container.archive.rebuild()
    text = (
        f"Object store: {settings.objects_place}. Jobs in the archive: {made.jobs}. "
        f"Removed from the index, because their files are gone: {made.removed}."
    )
    print_record(vars(made), text, as_json=as_json)
    if made.unreadable:
        typer.echo(f"{made.unreadable} descriptions cannot be read; the log says why.", err=True)


def sftp() -> None:
    """Serve the data homes over SFTP. `modelmill up` does this already."""
    from app.bootstrap.sftp import serve_homes

    serve_homes()
