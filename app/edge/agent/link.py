"""The connection to the web server: orders arrive, acknowledgements and heartbeats are sent.

It uses a WebSocket; if a proxy blocks it, long polling, and retries a WebSocket after a while. It reconnects forever.
An order is acknowledged after it was stored.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from app.edge.agent.backoff import LINK_PAUSE, Backoff
from app.edge.agent.database import storage_problem
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import CannotStart, Unreachable
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.nodes import wire
from app.nodes.model import HEARTBEAT_S, Order

MOST_DOWN_BYTES = 16 << 20
SOCKET_AGAIN_S = 300.0
"""Seconds of polling before a socket is tried again."""
BRIEF_S = 5.0
"""If two sockets in a row are closed sooner, a proxy is assumed to close them."""
SUPERSEDED = 4409
"""The web closes a socket with this code when the same node has connected again."""
GATHER_S = 0.05
"""Changes within this time, in seconds, share one heartbeat."""
logger = logging.getLogger(__name__)


class SocketBlocked(Exception):
    """No socket can be opened; plain HTTP may work."""


class WebLink:
    """Keeps the connection to the web up.

    Attributes:
        is_connected: orders are being received.
        order_problem: why the newest order could not be stored; empty when it was.
    """

    def __init__(
        self,
        web: WebClient,
        *,
        join: Callable[[], Awaitable[None]],
        heartbeat: Callable[[bool], wire.Heartbeat],
        store_order: Callable[[Order], Awaitable[None]],
        on_connected: Callable[[], None],
        node: str,
    ) -> None:
        """
        Args:
            web: the web, with the node's token once there is one.
            join: makes sure that the node has a token.
            heartbeat: what to report; its argument: with the stored orders, as at first.
            store_order: raises BadRequest for what cannot be an order of this node.
            on_connected: called whenever a connection is there.
            node: the name of this node.
        """
        self._web, self._node = web, node
        self._join, self._heartbeat, self._store_order, self._on_connected = join, heartbeat, store_order, on_connected
        self._changed = asyncio.Event()
        self._backoff = Backoff()
        self._last_error = ""
        self._brief_sockets = 0
        self.is_connected = False
        self.order_problem = ""
        self._is_evicted = False

    def report_soon(self) -> None:
        """Send a heartbeat now: something has changed."""
        self._changed.set()

    def mark_reported(self, error: Exception) -> None:
        """Suppresses the log of this error, which the user has seen already."""
        self._last_error = type(error).__name__

    async def run(self) -> None:
        """Run forever."""
        while True:
            try:
                if not self._web.token:
                    await self._join()
                await self._hold_connection()
            except (Unreachable, ApiError, CannotStart, OSError, WebSocketException) as error:
                self._warn_once(error)
                if isinstance(error, ApiError) and error.status == HTTPStatus.UNAUTHORIZED and self._web.token:
                    await self._wait_as_evicted()
                if isinstance(error, ConnectionClosed) and error.rcvd and error.rcvd.code == SUPERSEDED:
                    await asyncio.sleep(LINK_PAUSE.longest_s)  # otherwise two agents would evict each other forever
            finally:
                self.is_connected = False
            await asyncio.sleep(self._backoff.next_s())

    async def _wait_as_evicted(self) -> None:
        """Waits: failed log-ins are counted by address, and retries with an invalid token would lock out the whole
        machine."""
        if not self._is_evicted:
            logger.error(
                "%s takes the token of the node %s no more: it was registered anew elsewhere, or removed. To take the "
                "name back, end this agent and start it with --replace.",
                self._web.url,
                self._node,
            )
        self._is_evicted = self._web.is_refused = True
        await asyncio.sleep(LINK_PAUSE.longest_s)

    async def _hold_connection(self) -> None:
        try:
            await self._by_socket()
        except SocketBlocked as error:
            await self._by_poll(str(error))

    async def _by_socket(self) -> None:
        """Runs until the socket is closed.

        Raises:
            SocketBlocked, OSError, TimeoutError: It cannot be opened.
        """
        if self._brief_sockets >= 2:
            self._brief_sockets = 0
            raise SocketBlocked("it is closed at once")
        async with self._open_socket() as socket:
            started = time.monotonic()
            try:
                await socket.send(wire.dump_frame(wire.report_frame(self._heartbeat(True))))
                self._mark_connected()
                async with self._heartbeats(
                    lambda heartbeat: socket.send(wire.dump_frame(wire.report_frame(heartbeat)))
                ):
                    async for text in socket:
                        seq = await self._receive(_read_frame(text))
                        if seq is not None:
                            await socket.send(wire.dump_frame(wire.acknowledge_frame([seq])))
            finally:
                self._brief_sockets = self._brief_sockets + 1 if time.monotonic() - started < BRIEF_S else 0

    @asynccontextmanager
    async def _open_socket(self) -> AsyncIterator[ClientConnection]:
        """Opens a socket.

        Raises:
            SocketBlocked: It is refused or broken.
            OSError, TimeoutError: Nothing answers.
        """
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
        """Polls for SOCKET_AGAIN_S.

        Raises:
            Unreachable, ApiError: The web does not answer, or refuses.
        """
        await self._web.report(self._heartbeat(True))
        self._mark_connected()
        logger.info("It is asked by long poll, for there is no WebSocket: %s", why)
        until = time.monotonic() + SOCKET_AGAIN_S
        async with self._heartbeats(self._web.report):
            while time.monotonic() < until:
                frames = await self._web.messages()
                seqs = [seq for frame in frames if (seq := await self._receive(frame)) is not None]
                if seqs:
                    await self._web.acknowledge(seqs)
                elif frames:  # none of them could be stored
                    await asyncio.sleep(1)

    async def _receive(self, frame: object) -> int | None:
        """Stores an order.

        Returns:
            The number to acknowledge; None if it could not be stored.
        """
        try:
            order = wire.parse_order(frame if isinstance(frame, Mapping) else {}, self._node)
            await self._store_order(order)
        except (BadRequest, sqlite3.Error) as error:
            logger.warning("An order of the web could not be stored: %s", error)
            self._note_problem(storage_problem(error))
            return None
        self._note_problem("")
        return order.seq

    def _note_problem(self, problem: str) -> None:
        if problem != self.order_problem:
            self.order_problem = problem
            self.report_soon()

    @asynccontextmanager
    async def _heartbeats(self, send: Callable[[wire.Heartbeat], Awaitable[None]]) -> AsyncIterator[None]:
        """Sends heartbeats within the block: periodically, and at once after a change."""
        task = asyncio.create_task(self._send_heartbeats(send))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _send_heartbeats(self, send: Callable[[wire.Heartbeat], Awaitable[None]]) -> None:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._changed.wait()
                await asyncio.sleep(GATHER_S)
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await send(self._heartbeat(False))
            except (Unreachable, ApiError, ConnectionClosed) as error:
                logger.debug("A sign of life was not sent: %s", error)  # the receiver sees it, too

    def _mark_connected(self) -> None:
        self._backoff.reset()
        self._last_error = ""
        self._is_evicted = self._web.is_refused = False
        self.is_connected = True
        self._on_connected()
        logger.info("Connected to %s.", self._web.url)

    def _warn_once(self, error: Exception) -> None:
        """Logs an error once, until another one occurs or the web was reached."""
        text = str(error) or type(error).__name__
        if type(error).__name__ != self._last_error:
            self._last_error = type(error).__name__
            logger.warning("No connection to %s; it is tried again and again: %s", self._web.url, text)


def _read_frame(text: str | bytes) -> JsonObject:
    try:
        return wire.read(text)
    except wire.BadFrame:
        return {}
