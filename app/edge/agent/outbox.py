"""Tells the web, in order, what it is to be told; also what was left from before the agent was restarted."""

from __future__ import annotations

import asyncio
import logging
import sqlite3

from app.edge.agent.backoff import Backoff
from app.edge.agent.store import Store
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import Unreachable

UNAUTHORIZED = 401
LATER = (UNAUTHORIZED, 408, 429)
"""Answers that may be others another time, though they are 4xx. A 500 may not: what the web stumbles over would keep
all that lies behind it."""
logger = logging.getLogger(__name__)


class Outbox:
    def __init__(self, store: Store, web: WebClient) -> None:
        self._store = store
        self._web = web
        self._woken = asyncio.Event()

    def push(self, path: str, body: bytes, content_type: str, *, replaces: str = "") -> None:
        try:
            self._store.push(path, body, content_type, replaces)
        except sqlite3.Error as error:
            logger.error("A report to %s could not be kept and is lost: %s", path, error)
        self._woken.set()

    def hurry(self) -> None:
        """The web is there again."""
        self._woken.set()

    async def run(self) -> None:
        """For ever."""
        pauses = Backoff()
        while True:
            self._woken.clear()
            try:
                await self._send_all()
                pauses.reset()
                await self._woken.wait()
            except (Unreachable, ApiError, sqlite3.OperationalError) as error:  # the last: a disk that is full
                logger.debug("Reports wait for the web: %s", error)
                await self._pause(pauses.next_s())

    async def _send_all(self) -> None:
        """Raises Unreachable, ApiError for what is to be tried again."""
        while self._web.token and not self._web.is_refused and (parcel := self._store.oldest()) is not None:
            try:
                await self._web.post(parcel.path, parcel.body, parcel.content_type)
            except ApiError as error:
                self._web.is_refused = error.status == UNAUTHORIZED
                if error.status > 500 or error.status in LATER:
                    raise
                logger.warning("The web refuses a report to %s, which is dropped: %s", parcel.path, error)
            self._store.sent(parcel)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
