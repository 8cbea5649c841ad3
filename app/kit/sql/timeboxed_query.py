"""A database query for a metrics scrape that must not wait for a stalled database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from app.kit.errors import ModelmillError
from app.kit.sql.database import Database

WITHIN_S = 2.0
AGAIN_WITHIN_S = 0.1
"""Skips the query if another has just timed out: a scrape has several, and they must not wait one after the other."""
STALLS_S = 3.0
T = TypeVar("T")


class TimeboxedQuery(Generic[T]):
    """Called by many threads. Only one at a time queries the database: while it stalls, they do not accumulate
    there."""

    _stalled_at: ClassVar[WeakKeyDictionary[Database, float]] = WeakKeyDictionary()

    def __init__(self, database: Database, query: Callable[[Connection], T]) -> None:
        self._database = database
        self._query = query
        self._lock = threading.Lock()
        self._pending: Future[T] | None = None

    def take(self) -> T | None:
        """None: the database does not answer, or not within WITHIN_S."""
        with self._lock:
            if self._pending is None or self._pending.done():
                self._pending = Future()
                threading.Thread(target=self._ask, args=(self._pending,), name="timeboxed-query", daemon=True).start()
            pending = self._pending
        stalled_at = self._stalled_at.get(self._database)
        has_stalled = stalled_at is not None and time.monotonic() - stalled_at < STALLS_S
        try:
            return pending.result(AGAIN_WITHIN_S if has_stalled else WITHIN_S)
        except TimeoutError:
            if not has_stalled:
                self._stalled_at[self._database] = time.monotonic()
            return None
        except ModelmillError:
            return None

    def _ask(self, future: Future[T]) -> None:
        try:
            with self._database.read() as conn:
                value = self._query(conn)
        except Exception as error:  # noqa: BLE001  # whatever it is, who waits is to learn of it
            future.set_exception(error)
        else:
            future.set_result(value)
