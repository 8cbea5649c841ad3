"""Sends stored reports to the web, in order, including those from before a restart of the agent."""

from __future__ import annotations

import asyncio
import logging
import sqlite3

from app.edge.agent.backoff import Backoff
from app.edge.agent.store import AgentStore
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import Unreachable

UNAUTHORIZED = 401
RETRIED = (UNAUTHORIZED, 408, 429)
"""Errors below 500 that are retried. A 500 itself is not, since a report that the web cannot process would block the
others."""
logger = logging.getLogger(__name__)


class Outbox:
    """The reports of one agent."""

    def __init__(self, store: AgentStore, web: WebClient) -> None:
        self._store = store
        self._web = web
        self._wake_up = asyncio.Event()

    def push(self, path: str, body: bytes, content_type: str, *, replaces: str = "") -> None:
        """Store a report and send it in its turn. If it cannot be stored, it is lost, with an error in the log.

        Args:
            path: of the web, with a leading slash.
            replaces: an unsent report with the same key is dropped; empty: none.
        """
        try:
            self._store.push(path, body, content_type, replaces)
        except sqlite3.Error as error:
            logger.error("A report to %s could not be kept and is lost: %s", path, error)
        self._wake_up.set()

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
                backoff.reset()
                await self._wake_up.wait()
            except (Unreachable, ApiError, sqlite3.OperationalError) as error:  # the last case: a full disk
                logger.debug("Reports wait for the web: %s", error)
                await self._pause(backoff.next_s())

    async def _send_all(self) -> None:
        """Sends all reports.

        Raises:
            Unreachable, ApiError: The rest has to be retried.
        """
        while self._web.token and not self._web.is_refused and (entry := self._store.oldest()) is not None:
            try:
                await self._web.post(entry.path, entry.body, entry.content_type)
            except ApiError as error:
                self._web.is_refused = error.status == UNAUTHORIZED
                if error.status > 500 or error.status in RETRIED:
                    raise
                logger.warning("The web refuses a report to %s, which is dropped: %s", entry.path, error)
            self._store.remove_sent(entry)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake_up.wait()
        except TimeoutError:
            return
