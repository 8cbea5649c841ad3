"""The persistent state of an agent, in one SQLite file: its token, its orders, its unsent reports, and which process
runs for which order.

A damaged file is moved aside and a new one created: the web server sends all orders again.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.edge.agent.disk_reserve import DiskReserve
from app.kit.clock import now, to_text
from app.kit.files import make_private
from app.nodes.model import Operation, Order, WorkerState, WorkKey

VERSION = 1
OUTBOX_MOST = 1000
OUTBOX_BYTES = 256 << 20
LOST_REPORTS, LOST_REPORTS_AT = "lost_reports", "lost_reports_at"
REFUSED_REPORTS, REFUSED_REPORTS_AT, REFUSAL = "refused_reports", "refused_reports_at", "refusal"
"""Names of settings."""
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
class WorkerRecord:
    """What is stored about a worker for the next agent."""

    port: int = 0
    """0 if none was chosen yet."""
    serves: bool = False
    """True if others reach the worker at its port."""
    is_encrypted: bool = False
    """True if by encrypted connections only."""
    pid: int = 0
    """0 if it has no process."""
    identity: str = ""
    """Distinguishes the process from others with the same pid, see `process.identity_of`."""
    digest: str = ""
    """Digest of the process's program, its files and its content."""
    generation: int = 0
    """Generation of the newest order."""
    runs: int = 0
    """The generation of the order for which the process was started."""
    started_at: str = ""
    state: WorkerState = WorkerState.STARTING
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class OutboxEntry:
    """A POST that the web has not accepted yet."""

    number: int
    path: str
    content_type: str
    body: bytes


class AgentStore:
    """The database, for one thread of one process.

    Attributes:
        was_damaged: the file could not be read and was moved aside; its contents are lost.
    """

    def __init__(self, file: Path, node: str) -> None:
        make_private(file.parent)
        self.node = node
        self.was_damaged = False
        self._reserve = DiskReserve(file.with_name("reserve"))
        try:
            self._db = _open(file)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", None) not in DAMAGED:
                raise
            logger.warning("%s is damaged and moved aside; the web tells again what is to run: %s", file, error)
            _move_aside(file)
            self.was_damaged = True
            self._db = _open(file)
        self._reserve.fill()

    def close(self) -> None:
        self._db.close()

    # settings
    def setting(self, name: str) -> str:
        """Returns a setting; empty if it was never set."""
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def remember(self, name: str, value: str) -> None:
        with self._db:
            self._set(name, value)

    def _set(self, name: str, value: str) -> None:
        """Within a transaction."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    # orders
    def put(self, order: Order) -> bool:
        """Store an order, unless a newer one of the same key is stored. A deletion succeeds on a full disk, too.

        Args:
            order: with seq 0 it is not from the web: it is stored if its content differs, under the stored seq.

        Returns:
            Whether anything but the number has changed.
        """
        current = self.order(order.key)
        if current is None:
            if order.operation is Operation.DELETE:
                return False
        elif order.seq == 0:
            if _build_content(current) == _build_content(order):
                return False
        elif order.seq <= current.seq:
            return False
        seq = order.seq or (current.seq if current else 0)
        self._write(lambda: self._put(order, seq), makes_room=order.operation is Operation.DELETE)
        return current is None or _build_content(current) != _build_content(order)

    def _put(self, order: Order, seq: int) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *_build_key(order.key),
                    seq,
                    order.namespace,
                    order.name,
                    order.operation.value,
                    order.generation,
                    json.dumps(dict(order.content)),
                ),
            )

    def order(self, key: WorkKey) -> Order | None:
        return next(iter(self._select_orders(f"WHERE {_OF_KEY}", _build_key(key))), None)

    def orders(self) -> list[Order]:
        """Returns all orders by seq, including deletions that are not yet carried out."""
        return self._select_orders("ORDER BY seq", ())

    def forget(self, order: Order) -> None:
        """Remove a deleted order and its worker, unless a newer order has arrived."""
        with self._db:
            deleted = self._db.execute(
                f"DELETE FROM orders WHERE {_OF_KEY} AND seq <= ? AND operation = 'delete'",  # noqa: S608  # the condition is a constant
                (*_build_key(order.key), order.seq),
            )
            if deleted.rowcount:
                self._db.execute(f"DELETE FROM workers WHERE {_OF_KEY}", _build_key(order.key))  # noqa: S608  # likewise
        self._reserve.fill()

    def _select_orders(self, where: str, values: Iterable[Any]) -> list[Order]:
        rows = self._db.execute(
            f"SELECT kind, uid, part, seq, namespace, name, operation, generation, content FROM orders {where}",  # noqa: S608  # the callers' are constants
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
    def worker(self, key: WorkKey) -> WorkerRecord:
        """Returns what is stored about a worker; an empty record for an unknown one."""
        row = self._db.execute(f"SELECT kept FROM workers WHERE {_OF_KEY}", _build_key(key)).fetchone()  # noqa: S608  # see forget
        if row is None:
            return WorkerRecord()
        data = json.loads(row[0])
        return WorkerRecord(**{**data, "state": WorkerState(data["state"])})

    def save_worker(self, key: WorkKey, worker: WorkerRecord) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO workers VALUES (?, ?, ?, ?)", (*_build_key(key), json.dumps(asdict(worker)))
            )

    def ports(self) -> set[int]:
        """Returns all ports that belong to a worker."""
        return {int(json.loads(row[0])["port"]) for row in self._db.execute("SELECT kept FROM workers")}

    # reports to the web
    def push(self, path: str, body: bytes, content_type: str, replaces: str) -> None:
        """Append a report. The oldest are dropped, and counted, if there are too many, or too many bytes.

        Args:
            path: of the web.
            body: of the POST.
            content_type: of the body.
            replaces: unsent reports with the same key are removed; empty: none.

        Raises:
            sqlite3.Error: It could not be stored, as on a full disk.
        """
        self._write(lambda: self._push(path, body, content_type, replaces))

    def _push(self, path: str, body: bytes, content_type: str, replaces: str) -> None:
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
                self._set(LOST_REPORTS, str(self.lost_reports + dropped))
                self._set(LOST_REPORTS_AT, to_text(now()))
        if dropped:
            logger.warning("The web has been away for too long: %d of the oldest reports to it are lost.", dropped)

    @property
    def lost_reports(self) -> int:
        """Number of accepted reports that were dropped because too many, or too many bytes, were waiting."""
        return int(self.setting(LOST_REPORTS) or 0)

    @property
    def lost_reports_at(self) -> str:
        """When the last of them was; empty: there was none."""
        return self.setting(LOST_REPORTS_AT)

    @property
    def refused_reports(self) -> int:
        """Number of reports that the web has refused, and that are dropped."""
        return int(self.setting(REFUSED_REPORTS) or 0)

    @property
    def refused_reports_at(self) -> str:
        """When it refused the last of them; empty: there was none."""
        return self.setting(REFUSED_REPORTS_AT)

    @property
    def refusal(self) -> str:
        """Why it refused the last of them."""
        return self.setting(REFUSAL)

    def oldest(self) -> OutboxEntry | None:
        row = self._db.execute("SELECT id, path, content_type, body FROM outbox ORDER BY id LIMIT 1").fetchone()
        return OutboxEntry(*row) if row else None

    def remove_sent(self, entry: OutboxEntry) -> None:
        """Succeeds on a full disk, too: the reports behind it are sent."""
        self._write(lambda: self._remove(entry, ""), makes_room=True)

    def remove_refused(self, entry: OutboxEntry, refusal: str) -> None:
        """Like `remove_sent`, of a report that the web refuses; it is counted.

        Args:
            refusal: the web's reason; not empty.
        """
        self._write(lambda: self._remove(entry, refusal), makes_room=True)

    def _remove(self, entry: OutboxEntry, refusal: str) -> None:
        with self._db:
            self._db.execute("DELETE FROM outbox WHERE id = ?", (entry.number,))
            if refusal:
                self._set(REFUSED_REPORTS, str(self.refused_reports + 1))
                self._set(REFUSED_REPORTS_AT, to_text(now()))
                self._set(REFUSAL, refusal)

    def _write(self, change: Callable[[], None], *, makes_room: bool = False) -> None:
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
        self._reserve.fill()  # there may be room again by now

    def _restart_log(self, how: str = "RESTART") -> None:
        """Has what is in the log written to the database, as far as there is room, so that the log begins again."""
        with suppress(sqlite3.OperationalError):
            self._db.execute(f"PRAGMA wal_checkpoint({how})").fetchall()


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


def _build_key(key: WorkKey) -> tuple[str, str, str]:
    return key.kind, key.uid, key.part


def _build_content(order: Order) -> tuple[Any, ...]:
    return order.operation is Operation.DELETE, order.generation, order.namespace, order.name, dict(order.content)
