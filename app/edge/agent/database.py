"""The SQLite file of an agent. A damaged one is moved aside, and a new one created: the web sends all orders again."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from app.kit.files import make_private

VERSION = 1
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
TABLES = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orders (
    kind TEXT, uid TEXT, part TEXT, seq INTEGER NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    operation TEXT NOT NULL, generation INTEGER NOT NULL, content TEXT NOT NULL, PRIMARY KEY (kind, uid, part));
CREATE TABLE IF NOT EXISTS workers (
    kind TEXT, uid TEXT, part TEXT, kept TEXT NOT NULL, PRIMARY KEY (kind, uid, part));
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, content_type TEXT NOT NULL, replaces TEXT NOT NULL,
    bytes INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS sinks (
    sink_id TEXT PRIMARY KEY, uid TEXT NOT NULL, progress TEXT NOT NULL, entries INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sink_queue (
    number INTEGER PRIMARY KEY AUTOINCREMENT, sink_id TEXT NOT NULL, bytes INTEGER NOT NULL, envelope TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS ix_sink_queue ON sink_queue (sink_id, number, bytes);
CREATE TABLE IF NOT EXISTS sink_rows (
    uid TEXT PRIMARY KEY, run TEXT NOT NULL, number INTEGER NOT NULL, last INTEGER NOT NULL, states TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS sink_queue_added AFTER INSERT ON sink_queue BEGIN
    UPDATE sinks SET entries = entries + 1, bytes = bytes + NEW.bytes WHERE sink_id = NEW.sink_id; END;
CREATE TRIGGER IF NOT EXISTS sink_queue_removed AFTER DELETE ON sink_queue BEGIN
    UPDATE sinks SET entries = entries - 1, bytes = bytes - OLD.bytes WHERE sink_id = OLD.sink_id; END;
"""
logger = logging.getLogger(__name__)


class AgentDatabase:
    """The open file, for one thread of one process.

    Attributes:
        connection: for reads, and for transactions that need no room on a full disk.
        was_damaged: the file could not be read and was moved aside; its contents are lost.
    """

    def __init__(self, file: Path) -> None:
        make_private(file.parent)
        self.was_damaged = False
        self._reserve = DiskReserve(file.with_name("reserve"))
        try:
            self.connection = _open(file)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in DAMAGED:
                raise
            logger.warning("%s is damaged and moved aside; the web tells again what is to run: %s", file, error)
            _move_aside(file)
            self.was_damaged = True
            self.connection = _open(file)
        self.fill_reserve()

    def close(self) -> None:
        self.connection.close()

    def fill_reserve(self) -> None:
        """Takes room for deletions on a full disk, if there is room again."""
        self._reserve.fill()

    def setting(self, name: str) -> str:
        """Returns a setting; empty if it was never set."""
        row = self.connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def put_setting(self, name: str, value: str) -> None:
        """Stores a setting, within a transaction."""
        self.connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def write(self, change: Callable[[], None], *, makes_room: bool = False) -> None:
        """Carries out a change, also if the disk is full but the database still has unused room.

        Args:
            change: a transaction.
            makes_room: it may use the reserve.
        """
        try:
            change()
        except sqlite3.OperationalError:
            self._restart_log()
            try:
                change()
            except sqlite3.OperationalError:
                if not makes_room or not self._reserve.release():
                    raise
                change()
                self._restart_log("TRUNCATE")
        self.fill_reserve()  # there may be room again by now

    def _restart_log(self, how: str = "RESTART") -> None:
        """Has what is in the log written to the database, as far as there is room, so that the log begins again."""
        with suppress(sqlite3.OperationalError):
            self.connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()


def storage_problem(error: Exception) -> str:
    """Returns why something could not be stored, for the users of the node."""
    is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return "its disk is full" if is_full else str(error).rstrip(".")


def _open(file: Path) -> sqlite3.Connection:
    """Opens the file.

    Raises:
        DatabaseError: With one of the codes DAMAGED if it is not a database of this version.
    """
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    file.chmod(0o600)  # it contains the token
    database = sqlite3.connect(file, timeout=10)
    try:
        _check(database)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(f"{TABLES} PRAGMA user_version = {VERSION};")
    except BaseException:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection) -> None:
    with closing(database.execute("PRAGMA quick_check(1)")) as answers:
        verdict = str(answers.fetchone()[0])
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if verdict == "ok" and version in (0, VERSION):
        return
    error = sqlite3.DatabaseError(f"its version is {version}" if verdict == "ok" else verdict)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    raise error


def _move_aside(file: Path) -> None:
    """Moves the file together with SQLite's additional files, which would corrupt the new one. Only the last damaged
    file is kept."""
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    file.replace(file.with_name(file.name + ".damaged"))


RESERVE_BYTES = 256 << 10
"""SQLite needs a few pages of it for a deletion."""


class DiskReserve:
    """A file of random bytes, which no file system compresses. Deleting it makes room on a full disk."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self) -> None:
        """Writes the file; does nothing if there is no room."""
        if self._file.exists():
            return
        try:
            self._file.touch(mode=0o600)
            self._file.write_bytes(os.urandom(RESERVE_BYTES))
        except OSError:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def release(self) -> bool:
        """Deletes the file, and returns whether it existed."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True
