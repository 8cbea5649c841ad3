"""One database: connections, transactions, and the differences between SQLite and PostgreSQL.

A transaction that will write declares it at its start: SQLite then takes its one write lock at once and waits for it,
instead of failing in the middle (a deferred transaction that turns into a writer gets "database is locked", whatever
the timeout). SQLite runs with a write-ahead log, so readers never wait; it belongs on a local disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError, StatementError, TimeoutError

from app.kit.errors import ModelmillError
from app.kit.files import make_private
from app.kit.sql import encryption
from app.kit.sql.errors import DatabaseUnavailable
from app.kit.sql.events import LISTENER, EventListener

LOCK_WAIT_S = 30
BUSY_AGAIN_S = 0.01
PRIMARY_CODE = 0xFF  # the remaining bits of a SQLite extended code give the reason
BEGIN = "modelmill_begin"
CONNECT_S = 5
POOL = 10
CHANGED = "modelmill_changed"
logger = logging.getLogger(__name__)


class Database:
    """Connects when it is first used."""

    def __init__(
        self,
        url: str,
        sealer: encryption.Sealer | None = None,
        *,
        announce: Callable[[Collection[str]], None] = lambda _: None,
        on_event: EventListener | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            url: sqlite:///path or postgresql://user:password@host/name.
            sealer: encrypts and decrypts sealed columns; without it they cannot be used.
            announce: receives the keys that a transaction recorded as changed, once it is committed; must not raise.
            on_event: receives events within the transactions that publish them.
        """
        target = make_url(url)
        self._announce = announce
        self._on_event = on_event
        self.is_sqlite = target.get_backend_name() == "sqlite"
        if self.is_sqlite:
            path = Path(target.database or "")
            arguments = {"timeout": LOCK_WAIT_S, "check_same_thread": False}
            self._engine = create_engine(target, connect_args=arguments, pool_size=POOL, max_overflow=-1)
            event.listen(self._engine, "do_connect", lambda *_: _make_private_file(path))
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)
        else:
            driver = target.set(drivername="postgresql+psycopg")
            arguments = {"connect_timeout": CONNECT_S}
            self._engine = create_engine(driver, connect_args=arguments, pool_pre_ping=True, pool_timeout=CONNECT_S)
        self.sealer = sealer or encryption.Sealer(None)
        encryption.use(self._engine.dialect, self.sealer)

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with _translate_errors(), self._connect("BEGIN") as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write, atomically. Keys passed to note_change are announced at its end."""
        changed: set[str] = set()
        with _translate_errors(), self._connect("BEGIN IMMEDIATE") as connection:
            connection.info[CHANGED] = changed
            connection.info[LISTENER] = self._on_event
            with connection.begin():
                yield connection
        if changed:
            self._announce(changed)

    def check(self) -> None:
        """Asks the server for an answer.

        Raises:
            DatabaseUnavailable: There is none.
        """
        with self.read() as connection:
            connection.exec_driver_sql("SELECT 1")

    def wipe(self) -> None:
        """SQLite: removes overwritten data from the log, if nobody is reading at this moment."""
        if self.is_sqlite:
            with _translate_errors(), self._engine.connect() as connection:
                connection.connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._engine.dispose()

    @contextlib.contextmanager
    def _connect(self, begin: str) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            yield connection.execution_options(**{BEGIN: begin})


def note_change(connection: Connection, *keys: str) -> None:
    """Announces these keys once the writing transaction of this connection is committed."""
    connection.info.setdefault(CHANGED, set()).update(keys)


def _make_private_file(path: Path) -> None:
    """SQLite would create a file that everybody may read; its companion files inherit this file's mode."""
    make_private(path.parent)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (OperationalError, TimeoutError) as error:
        raise _make_unavailable(error) from error
    except OSError as error:  # the folder of a SQLite file
        raise _make_unavailable(error) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _make_unavailable(error) from error
        raise
    except StatementError as error:  # raised by a column's type
        if isinstance(error.orig, ModelmillError):
            raise error.orig from error
        raise


def _make_unavailable(error: Exception) -> DatabaseUnavailable:
    """The cause goes to the log and not to the client: it names hosts and users."""
    cause = str(getattr(error, "orig", error)).strip().partition("\n")[0]
    logger.warning("The database: %s", cause or type(error).__name__)
    return DatabaseUnavailable(
        "The database does not answer.",
        hint="Try again in a moment. If it stays so, the operator finds the cause in the log.",
    )


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver starts no transaction by itself: _begin_sqlite does
    connection.create_function("lower", 1, _fold_case, deterministic=True)  # its own knows only a to z
    _write_ahead(connection)
    for setting in ("synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON"):
        connection.execute(f"PRAGMA {setting}")


def _fold_case(value: str | bytes | float | None) -> str | bytes | float | None:
    return value.casefold() if isinstance(value, str) else value


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switches a new file to the write-ahead log. SQLite does not wait for locks here, whatever the timeout: if several
    processes open the file for the first time at once, all but one would get "locked"."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & PRIMARY_CODE == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_AGAIN_S)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))
