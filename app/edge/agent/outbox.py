"""Sends stored reports to the web, in order, including those from before a restart of the agent."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable

from app.edge.agent.backoff import Backoff
from app.edge.agent.database import storage_problem
from app.edge.agent.report_store import ReportStore
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import Unreachable
from app.kit.errors import Unavailable

UNAUTHORIZED = 401
RETRIED = (UNAUTHORIZED, 408, 429)
"""Errors below 500 that are retried. A 500 itself is not, since a report that the web cannot process would block the
others."""
INSUFFICIENT_STORAGE = 507
"""The web's object store is full, where pictures go and rows do not."""
MOST_REFUSAL = 300
"""Characters that are kept of the web's reason."""
logger = logging.getLogger(__name__)


class ReportNotStored(Unavailable, status=507, code="REPORT_NOT_STORED"):
    """The report could not be stored: its worker has to keep it, and to send it again."""


class Outbox:
    """The reports of one agent.

    Attributes:
        problem: why the newest report could not be stored; empty: it was.
        delivery_problem: why the web server, which answers, does not take what is stored; empty: it does.
    """

    def __init__(self, store: ReportStore, web: WebClient, on_problem: Callable[[], None] = lambda: None) -> None:
        """on_problem: called when `problem` or `delivery_problem` has changed."""
        self._store = store
        self._web = web
        self._on_problem = on_problem
        self._wake_up = asyncio.Event()
        self.problem = ""
        self.delivery_problem = ""

    def push(self, path: str, body: bytes, content_type: str, *, replaces: str = "") -> None:
        """Store a report and send it in its turn.

        Args:
            path: of the web, with a leading slash.
            replaces: an unsent report with the same key is dropped; empty: none.

        Raises:
            ReportNotStored: The disk is full, or cannot be written.
        """
        try:
            self._store.push(path, body, content_type, replaces)
        except sqlite3.Error as error:
            raise self.refuse(error) from error
        finally:
            self._wake_up.set()
        self._note_problem("")

    def refuse(self, error: sqlite3.Error) -> ReportNotStored:
        """Notes why a report could not be stored, and returns what its worker is told."""
        self._note_problem(storage_problem(error))
        return ReportNotStored(f"The node cannot store reports: {self.problem}.")

    def _note_problem(self, problem: str) -> None:
        if problem != self.problem:
            _log(logging.ERROR, problem, "Reports cannot be stored, and stay with their workers", "stored")
            self.problem = problem
            self._on_problem()

    def _note_delivery(self, problem: str) -> None:
        if problem != self.delivery_problem:
            _log(logging.WARNING, problem, "Reports wait, since the web server does not take them", "sent")
            self.delivery_problem = problem
            self._on_problem()

    def wake(self) -> None:
        """Retry now, since the web is reachable again."""
        self._wake_up.set()

    async def run(self) -> None:
        """Send reports forever."""
        backoff = Backoff()
        while True:
            self._wake_up.clear()
            try:
                await self._send_all()
                self._note_delivery("")
                backoff.reset()
                await self._wake_up.wait()
            except (Unreachable, ApiError, sqlite3.OperationalError) as error:  # the last case: a full disk
                logger.debug("Reports wait for the web: %s", error)
                if isinstance(error, ApiError) and error.status > 500:
                    self._note_delivery(error.message.rstrip("."))
                await self._pause(backoff.next_s())

    async def _send_all(self) -> None:
        """Sends all reports. Pictures for which the web has no room wait, and what is behind them goes on.

        Raises:
            Unreachable, ApiError: The rest has to be retried.
        """
        after, no_room = 0, None
        while self._web.token and not self._web.is_refused and (entry := self._store.oldest(after=after)) is not None:
            try:
                await self._web.post(entry.path, entry.body, entry.content_type)
            except ApiError as error:
                self._web.is_refused = error.status == UNAUTHORIZED
                if error.status == INSUFFICIENT_STORAGE and entry.is_replaceable:
                    after, no_room = entry.number, error
                    continue
                if error.status > 500 or error.status in RETRIED:
                    raise
                logger.warning("The web refuses a report to %s, which is dropped: %s", entry.path, error)
                self._store.remove_refused(entry, f"{error.code}: {error.message}"[:MOST_REFUSAL])
            else:
                self._store.remove_sent(entry)
        if no_room is not None:
            raise no_room

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake_up.wait()
        except TimeoutError:
            return


def _log(level: int, problem: str, trouble: str, done: str) -> None:
    if problem:
        logger.log(level, "%s: %s", trouble, problem)
    else:
        logger.info("Reports can be %s again", done)
