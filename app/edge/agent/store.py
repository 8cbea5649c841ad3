"""What an agent keeps over restarts, in one SQLite file: its token, its orders, what it has not yet told the web, and
which process runs for which order. Used by one process, in one thread.

A damaged file is moved aside and begun anew: the web tells again what is to run.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.edge.agent.disk_reserve import Reserve
from app.kit.files.private_folders import make_private
from app.nodes.model import Operation, Order, WorkerState, WorkKey

VERSION = 1
OUTBOX_MOST = 1000
OUTBOX_BYTES = 256 << 20
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
"""
_OF_KEY = "kind = ? AND uid = ? AND part = ?"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """What is known of a worker when the agent comes back. pid 0: no process; identity: what tells it from another
    process of the same pid. digest: of the program, its files and its content, and runs: the generation
    of its order, both of the process. port 0: none was chosen yet. serves:
    others reach it there."""

    port: int = 0
    serves: bool = False
    pid: int = 0
    identity: str = ""
    digest: str = ""
    generation: int = 0
    runs: int = 0
    started_at: str = ""
    state: WorkerState = WorkerState.STARTING
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class OutboxEntry:
    """A POST that the web has not taken yet."""

    number: int
    path: str
    content_type: str
    body: bytes


class Store:
    """was_damaged: what stood in the file before is lost."""

    def __init__(self, file: Path, node: str) -> None:
        make_private(file.parent)
        self.node = node
        self.was_damaged = False
        self._reserve = Reserve(file.with_name("reserve"))
        try:
            self._db = _opened(file)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in DAMAGED:
                raise
            logger.warning("%s is damaged and moved aside; the web tells again what is to run: %s", file, error)
            _move_aside(file)
            self.was_damaged = True
            self._db = _opened(file)
        self._reserve.fill()

    def close(self) -> None:
        self._db.close()

    # settings
    def setting(self, name: str) -> str:
        """Empty when there is none."""
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def remember(self, name: str, value: str) -> None:
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    # orders
    def put(self, order: Order) -> bool:
        """Is it news? Of a key only the newest is kept. One that did not come from the web has seq 0: it counts when it
        says anything else, and the number of what the web said stays. A deletion finds room on a full disk, too."""
        known = self.order(order.key)
        if known is None:
            if order.operation is Operation.DELETE:
                return False
        elif order.seq == 0:
            if _told(known) == _told(order):
                return False
        elif order.seq <= known.seq:
            return False
        seq = order.seq or (known.seq if known else 0)
        try:
            self._put(order, seq)
        except sqlite3.OperationalError:
            if order.operation is not Operation.DELETE or not self._reserve.release():
                raise
            self._put(order, seq)
        return known is None or _told(known) != _told(order)

    def _put(self, order: Order, seq: int) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *_key(order.key),
                    seq,
                    order.namespace,
                    order.name,
                    order.operation.value,
                    order.generation,
                    json.dumps(dict(order.content)),
                ),
            )

    def order(self, key: WorkKey) -> Order | None:
        return next(iter(self._orders(f"WHERE {_OF_KEY}", _key(key))), None)

    def orders(self) -> list[Order]:
        """By seq, deletes that are not carried out yet among them."""
        return self._orders("ORDER BY seq", ())

    def forget(self, order: Order) -> None:
        """Order and worker are gone, if nothing newer has come."""
        with self._db:
            gone = self._db.execute(
                f"DELETE FROM orders WHERE {_OF_KEY} AND seq <= ? AND operation = 'delete'",  # noqa: S608
                (*_key(order.key), order.seq),
            )
            if gone.rowcount:
                self._db.execute(f"DELETE FROM workers WHERE {_OF_KEY}", _key(order.key))  # noqa: S608
        self._reserve.fill()

    def _orders(self, where: str, values: Iterable[Any]) -> list[Order]:
        rows = self._db.execute(
            f"SELECT kind, uid, part, seq, namespace, name, operation, generation, content FROM orders {where}",  # noqa: S608
            tuple(values),
        )
        return [
            Order(
                seq=seq,
                node=self.node,
                key=WorkKey(kind, uid, part),
                namespace=namespace,
                name=name,
                operation=Operation(operation),
                generation=generation,
                content=json.loads(content),
                is_acknowledged=True,
            )
            for kind, uid, part, seq, namespace, name, operation, generation, content in rows
        ]

    # workers
    def kept(self, key: WorkKey) -> Kept:
        row = self._db.execute(f"SELECT kept FROM workers WHERE {_OF_KEY}", _key(key)).fetchone()  # noqa: S608
        if row is None:
            return Kept()
        data = json.loads(row[0])
        return Kept(**{**data, "state": WorkerState(data["state"])})

    def keep(self, key: WorkKey, kept: Kept) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO workers VALUES (?, ?, ?, ?)", (*_key(key), json.dumps(asdict(kept)))
            )

    def ports(self) -> set[int]:
        """Which are some worker's."""
        return {int(json.loads(row[0])["port"]) for row in self._db.execute("SELECT kept FROM workers")}

    # what the web is to be told
    def push(self, path: str, body: bytes, content_type: str, replaces: str) -> None:
        """Behind all others; what lies there under the same word goes. The oldest go when there is too much."""
        with self._db:
            if replaces:
                self._db.execute("DELETE FROM outbox WHERE replaces = ?", (replaces,))
            self._db.execute(
                "INSERT INTO outbox (path, content_type, replaces, bytes, body) VALUES (?, ?, ?, ?, ?)",
                (path, content_type, replaces, len(body), body),
            )
            dropped = self._db.execute(
                "DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, ROW_NUMBER() OVER newest AS place,"
                " SUM(bytes) OVER newest AS total FROM outbox WINDOW newest AS (ORDER BY id DESC))"
                " WHERE place > ? OR (total > ? AND place > 1))",
                (OUTBOX_MOST, OUTBOX_BYTES),
            ).rowcount
        if dropped:
            logger.warning("The web has been away for too long: %d of the oldest reports to it are lost.", dropped)

    def oldest(self) -> OutboxEntry | None:
        row = self._db.execute("SELECT id, path, content_type, body FROM outbox ORDER BY id LIMIT 1").fetchone()
        return OutboxEntry(*row) if row else None

    def sent(self, parcel: OutboxEntry) -> None:
        with self._db:
            self._db.execute("DELETE FROM outbox WHERE id = ?", (parcel.number,))


def _opened(file: Path) -> sqlite3.Connection:
    """Raises DatabaseError with the code of a damage for what is no database of this version."""
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    file.chmod(0o600)  # it holds the token
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
        found = str(answers.fetchone()[0])
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if found == "ok" and version in (0, VERSION):
        return
    error = sqlite3.DatabaseError(f"its version is {version}" if found == "ok" else found)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    raise error


def _move_aside(file: Path) -> None:
    """With what SQLite has written beside it, which would spoil the new one. Only the last damaged one is kept."""
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    file.replace(file.with_name(file.name + ".damaged"))


def _key(key: WorkKey) -> tuple[str, str, str]:
    return key.kind, key.uid, key.part


def _told(order: Order) -> tuple[Any, ...]:
    return order.operation is Operation.DELETE, order.generation, order.namespace, order.name, dict(order.content)
