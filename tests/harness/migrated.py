"""A database of this version on SQLite, in no time: migrated once in this process, and copied."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from app.accounts_wiring import MIGRATIONS
from app.kit.sql import Database
from app.kit.sql.migrating import upgrade


def migrated_file(path: Path) -> None:
    """A new one there, readable for nobody else."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(_migrated())


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "db")
        database = Database(f"sqlite:///{path}")
        upgrade(database, MIGRATIONS)
        database.close()
        return path.read_bytes()
