"""The connection to the web: orders come down, acknowledgements and signs of life go up.

By a WebSocket; where a proxy lets none through, by long poll, and after a while by a WebSocket again. It is made anew
for ever. What is received is acknowledged after it was stored.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from app.edge.agent.backoff import LONGEST_LINK_S, Backoff
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import CannotStart, Unreachable
from app.kit.errors import BadRequest
from app.nodes import wire
from app.nodes.model import HEARTBEAT_S, Order

MOST_DOWN_BYTES = 16 << 20
SOCKET_AGAIN_S = 300.0
"""So long it goes on by long poll before a socket is tried again."""
BRIEF_S = 5.0
"""A socket that is closed sooner, twice in a row, is taken for one that a proxy does not let be."""
SUPERSEDED = 4409
"""With this code the web closes a socket when the same node has dialled again."""
GATHER_S = 0.05
"""Several changes at once are one sign of life."""
logger = logging.getLogger(__name__)


class SocketBlocked(Exception):
    """A socket cannot be had; plain HTTP might."""


class Link:
    """join: makes sure that the node has a token. sign: what to report; with what is known, the first time.

    take: stores an order; raises BadRequest for what cannot be one. on_up: the connection is there.
    """

    def __init__(
        self,
        web: WebClient,
        *,
        join: Callable[[], Awaitable[None]],
        sign: Callable[[bool], wire.SignOfLife],
        take: Callable[[Order], Awaitable[None]],
        on_up: Callable[[], None],
        node: str,
    ) -> None:
        self._web, self._node = web, node
        self._join, self._sign, self._take, self._on_up = join, sign, take, on_up
        self._changed = asyncio.Event()
        self._pauses = Backoff()
        self._complaint = ""
        self._brief = 0
        self.is_connected = False
        self._is_evicted = False

    def tell(self) -> None:
        """Something has changed: report it at once."""
        self._changed.set()

    def has_been_said(self, error: Exception) -> None:
        """Somebody has already told what stands between this node and the web."""
        self._complaint = type(error).__name__

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                if not self._web.token:
                    await self._join()
                await self._connection()
            except (Unreachable, ApiError, CannotStart, OSError, WebSocketException) as error:
                self._complain(error)
                if isinstance(error, ApiError) and error.status == HTTPStatus.UNAUTHORIZED and self._web.token:
                    await self._wait_as_evicted()
                if isinstance(error, ConnectionClosed) and error.rcvd and error.rcvd.code == SUPERSEDED:
                    await asyncio.sleep(LONGEST_LINK_S)  # or two agents would take it from each other without end
            finally:
                self.is_connected = False
            await asyncio.sleep(self._pauses.next_s())

    async def _wait_as_evicted(self) -> None:
        """Failed log-ins are counted by address: who goes on with a dead token locks out its own machine."""
        if not self._is_evicted:
            logger.error(
                "%s takes the token of the node %s no more: it was registered anew elsewhere, or removed. To take the "
                "name back, end this agent and start it with --replace.",
                self._web.url,
                self._node,
            )
        self._is_evicted = self._web.is_refused = True
        await asyncio.sleep(LONGEST_LINK_S)

    async def _connection(self) -> None:
        try:
            await self._by_socket()
        except SocketBlocked as error:
            await self._by_poll(str(error))

    async def _by_socket(self) -> None:
        """Until it is closed. Raises SocketBlocked, OSError, TimeoutError."""
        if self._brief >= 2:
            self._brief = 0
            raise SocketBlocked("it is closed at once")
        async with self._socket() as socket:
            began = time.monotonic()
            try:
                await socket.send(wire.written(wire.report_frame(self._sign(True))))
                self._up()
                async with self._beating(lambda sign: socket.send(wire.written(wire.report_frame(sign)))):
                    async for text in socket:
                        seq = await self._receive(_frame(text))
                        if seq is not None:
                            await socket.send(wire.written(wire.acknowledge_frame([seq])))
            finally:
                self._brief = self._brief + 1 if time.monotonic() - began < BRIEF_S else 0

    @asynccontextmanager
    async def _socket(self) -> AsyncIterator[ClientConnection]:
        """Raises SocketBlocked where it is refused or broken, OSError and TimeoutError where nothing answers."""
        connecting = connect(
            self._web.socket_url,
            additional_headers=self._web.headers,
            max_size=MOST_DOWN_BYTES,
            proxy=None if self._web.is_local else True,
            close_timeout=2,
        )
        try:
            socket = await connecting
        except ConnectionRefusedError:
            raise
        except (WebSocketException, OSError, EOFError) as error:
            raise SocketBlocked(str(error) or type(error).__name__) from error
        try:
            yield socket
        finally:
            await socket.close()

    async def _by_poll(self, why: str) -> None:
        """For a while. Raises Unreachable, ApiError."""
        await self._web.report(self._sign(True))
        self._up()
        logger.info("It is asked by long poll, for there is no WebSocket: %s", why)
        until = time.monotonic() + SOCKET_AGAIN_S
        async with self._beating(self._web.report):
            while time.monotonic() < until:
                frames = await self._web.messages()
                seqs = [seq for frame in frames if (seq := await self._receive(frame)) is not None]
                if seqs:
                    await self._web.acknowledge(seqs)
                elif frames:  # none of them could be stored
                    await asyncio.sleep(1)

    async def _receive(self, frame: object) -> int | None:
        """The number to acknowledge, of an order that is stored."""
        try:
            order = wire.order_of(frame if isinstance(frame, Mapping) else {}, self._node)
            await self._take(order)
        except (BadRequest, sqlite3.Error) as error:
            logger.warning("An order of the web could not be stored: %s", error)
            return None
        return order.seq

    @asynccontextmanager
    async def _beating(self, send: Callable[[wire.SignOfLife], Awaitable[None]]) -> AsyncIterator[None]:
        """Meanwhile signs of life are sent: now and then, and at once when something has changed."""
        task = asyncio.create_task(self._beat(send))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _beat(self, send: Callable[[wire.SignOfLife], Awaitable[None]]) -> None:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._changed.wait()
                await asyncio.sleep(GATHER_S)
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await send(self._sign(False))
            except (Unreachable, ApiError, ConnectionClosed) as error:
                logger.debug("A sign of life was not sent: %s", error)  # who receives will see it, too

    def _up(self) -> None:
        self._pauses.reset()
        self._complaint = ""
        self._is_evicted = self._web.is_refused = False
        self.is_connected = True
        self._on_up()
        logger.info("Connected to %s.", self._web.url)

    def _complain(self, error: Exception) -> None:
        """Once, until it is another or the web was there in between."""
        said = str(error) or type(error).__name__
        if type(error).__name__ != self._complaint:
            self._complaint = type(error).__name__
            logger.warning("No connection to %s; it is tried again and again: %s", self._web.url, said)


def _frame(text: str | bytes) -> dict[str, Any]:
    try:
        return wire.read(text)
    except wire.BadFrame:
        return {}
