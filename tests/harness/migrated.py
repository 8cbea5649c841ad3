"""A database of this version on SQLite, in no time: migrated once in this process, and copied."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from sqlalchemy import event

from app.bootstrap.accounts import MIGRATIONS
from app.kit.sql import Database, Sealer
from app.kit.sql.migrations import upgrade
from app.settings import Settings


def migrated_file(path: Path) -> None:
    """A new one there, for whoever opens it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(migrated())


def migrated_data(settings: Settings) -> None:
    """One where these settings have theirs; nothing if theirs is elsewhere, or there already."""
    path = settings.data_dir / "modelmill.db"
    if settings.database == f"sqlite:///{path}" and not path.exists():
        migrated_file(path)


def migrated_database(path: Path) -> Database:
    """A new one there that never waits for the disk: what it commits outlasts its process, only not a loss of power."""
    migrated_file(path)
    return unsynced(path)


def unsynced(path: Path) -> Database:
    """One that is there, likewise."""
    made = Database(f"sqlite:///{path}", Sealer("a secret"))
    event.listen(made._engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
    return made


@cache
def migrated() -> bytes:
    """Its bytes. The processes of a run have them from the one that they are copies of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "db")
        database = Database(f"sqlite:///{path}")
        upgrade(database, MIGRATIONS)
        database.close()
        return path.read_bytes()
