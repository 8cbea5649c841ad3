"""Brings a database to the version of this program, with Alembic.

The versions lie with the capabilities, and in app/migrations where they concern several; they are one line.

All of it happens in one transaction that writes, so that of several processes that start at once one does it and the
others find it done.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from app.kit.sql.database import Database
from app.kit.sql.errors import WrongDatabaseVersion

if TYPE_CHECKING:  # a database that is current, as all but the first start find it, needs none of it
    from alembic.config import Config

REVISION = re.compile(r'^(down_)?revision = "(\w+)"', re.MULTILINE)
LOCK_KEY = 0x6D6F64656C  # any number of our own: PostgreSQL's advisory locks have no names


@dataclass(frozen=True)
class Migrations:
    scripts: Path
    """The folder of Alembic's env.py."""
    versions: tuple[Path, ...]
    """Folders of the versions."""


def upgrade(database: Database, migrations: Migrations) -> None:
    """To this program's version. Raises WrongDatabaseVersion for a database from the future, with nothing changed."""
    if current(database) != _head(migrations):
        move(database, migrations, "head")


def move(database: Database, migrations: Migrations, revision: str) -> None:
    """Bring the database to a version. Going back loses what the older version has no place for.

    Args:
        database: which one.
        migrations: of this program.
        revision: "head", "base" or the name of one.

    Raises:
        WrongDatabaseVersion: it is from the future; nothing has changed.
    """
    from alembic import command

    config = _config(migrations)
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
    """For who may not upgrade. Raises WrongDatabaseVersion."""
    present, own = current(database), _head(migrations)
    if present != own:
        raise WrongDatabaseVersion(
            f"The database is of version {present or 'none'}, and this program of {own}.",
            hint="Start the web of this version first: it brings the database up.",
        )


def current(database: Database) -> str | None:
    """The version of the database; None while it is empty."""
    with database.read() as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _head(migrations: Migrations) -> str:
    """This program's version: the one that no other is built on. Read as text, for Alembic would run all of them."""
    paths = (path for folder in migrations.versions for path in folder.glob("[0-9]*.py"))
    names = [REVISION.findall(path.read_text("utf-8")) for path in paths]
    of_files = {name for pairs in names for is_before, name in pairs if not is_before}
    (head,) = of_files - {name for pairs in names for is_before, name in pairs if is_before}
    return str(head)


def _refuse_future(connection: Connection, config: Config) -> None:
    from alembic.script import ScriptDirectory

    revision = _revision(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise WrongDatabaseVersion(
            f"The database is of version {revision}, which this program does not know: it is from a newer one.",
            hint="Start the newer program, or restore the database that was saved before the upgrade.",
        )


def _is_behind(connection: Connection, config: Config, revision: str) -> bool:
    """Does this revision lie before the database's?"""
    from alembic.script import ScriptDirectory

    present = _revision(connection)
    if present is None or revision == "head":
        return False
    before = ScriptDirectory.from_config(config).iterate_revisions(present, "base")
    return revision in {script.revision for script in before} - {present}


def _config(migrations: Migrations) -> Config:
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
