"""Migrates a database to the version of this program, with Alembic.

The migrations are in the capabilities, or in app/migrations if they concern several; they form one line.

Everything happens in one writing transaction: of several processes that start at once, one migrates and the others find
it done.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from app.kit.sql.database import Database
from app.kit.sql.errors import WrongDatabaseVersion

if TYPE_CHECKING:  # a current database, as in all starts but the first, needs none of it
    from alembic.config import Config

REVISION = re.compile(r'^(down_)?revision = "(\w+)"', re.MULTILINE)
LOCK_KEY = 0x6D6F64656C  # an arbitrary number: PostgreSQL's advisory locks have no names


@dataclass(frozen=True)
class Migrations:
    scripts: Path
    """The folder of Alembic's env.py."""
    versions: tuple[Path, ...]
    """The folders of the migrations."""


def upgrade(database: Database, migrations: Migrations) -> None:
    """Migrates to this program's version.

    Raises:
        WrongDatabaseVersion: The database is newer; it stays unchanged.
    """
    if current(database) != _find_head(migrations):
        move(database, migrations, "head")


def move(database: Database, migrations: Migrations, revision: str) -> None:
    """Migrates the database to a version. A downgrade loses data that the older version cannot store.

    Args:
        database: the database.
        migrations: the migrations of this program.
        revision: "head", "base" or the name of a revision.

    Raises:
        WrongDatabaseVersion: The database is newer; nothing has changed.
    """
    from alembic import command

    config = _build_config(migrations)
    with database.write() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
        _refuse_future(connection, config)
        config.attributes["connection"] = connection
        if revision == "base" or _is_behind(connection, config, revision):
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)


def require_current(database: Database, migrations: Migrations) -> None:
    """Checks the version of the database, for processes that may not migrate.

    Raises:
        WrongDatabaseVersion: It is not this program's.
    """
    present, own = current(database), _find_head(migrations)
    if present != own:
        raise WrongDatabaseVersion(
            f"The database is of version {present or 'none'}, and this program of {own}.",
            hint="Start the web of this version first: it brings the database up.",
        )


def current(database: Database) -> str | None:
    """Returns the version of the database; None if it is empty."""
    with database.read() as connection:
        return _read_revision(connection)


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _find_head(migrations: Migrations) -> str:
    """Returns this program's version: the one that no other is based on. It is read as text, because Alembic would
    execute all of them."""
    paths = (path for folder in migrations.versions for path in folder.glob("[0-9]*.py"))
    names = [REVISION.findall(path.read_text("utf-8")) for path in paths]
    of_files = {name for pairs in names for is_before, name in pairs if not is_before}
    (head,) = of_files - {name for pairs in names for is_before, name in pairs if is_before}
    return str(head)


def _refuse_future(connection: Connection, config: Config) -> None:
    from alembic.script import ScriptDirectory

    revision = _read_revision(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise WrongDatabaseVersion(
            f"The database is of version {revision}, which this program does not know: it is from a newer one.",
            hint="Start the newer program, or restore the database that was saved before the upgrade.",
        )


def _is_behind(connection: Connection, config: Config, revision: str) -> bool:
    """Whether this revision is older than the database's."""
    from alembic.script import ScriptDirectory

    present = _read_revision(connection)
    if present is None or revision == "head":
        return False
    before = ScriptDirectory.from_config(config).iterate_revisions(present, "base")
    return revision in {script.revision for script in before} - {present}


def _build_config(migrations: Migrations) -> Config:
    from alembic.config import Config

    config = Config()
    folders = "\n".join(map(str, migrations.versions))
    options = {
        "script_location": str(migrations.scripts),
        "version_locations": folders,
        "path_separator": "newline",
    }
    for name, value in options.items():
        config.set_main_option(name, value.replace("%", "%%"))
    return config
