"""Additional ports at which a server answers: each connection is forwarded unchanged, in a separate thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from app.kit.cli.command import CannotStart

CONNECT_S = 5.0
CHUNK_BYTES = 1 << 16
_UNAVAILABLE = json.dumps({"status": 1, "error": "What answers here is not up yet: try again in a moment."}).encode()
UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_UNAVAILABLE), _UNAVAILABLE)
)


@dataclass(frozen=True)
class Relay:
    """Passes connections to a port of 127.0.0.1 on to another address."""

    port: int
    target: tuple[str, int]
    """(host, port)"""
    option: str
    """The option that chooses another port."""


@contextlib.contextmanager
def running_relays(relays: Sequence[Relay]) -> Iterator[None]:
    """Relays until the block ends. Only on 127.0.0.1, because to a target every client looks local.

    Raises:
        CannotStart: A port is taken.
    """
    sockets = list[socket.socket]()
    try:
        for relay in relays:
            sockets.append(_listen(relay))
        stop = asyncio.Event()
        begun: Future[asyncio.AbstractEventLoop] = Future()
        answering = _serve(list(zip(relays, sockets, strict=True)), begun, stop)
        thread = threading.Thread(target=asyncio.run, args=(answering,), name="relays")
        thread.start()
        try:
            loop = begun.result()
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
    finally:
        for listener in sockets:
            listener.close()


def _listen(relay: Relay) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", relay.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CannotStart(
            f"port {relay.port} on 127.0.0.1 cannot be had: {error.strerror}", hint=f"Choose another {relay.option}."
        ) from error
    return listener


async def _serve(
    relays: list[tuple[Relay, socket.socket]], begun: Future[asyncio.AbstractEventLoop], stop: asyncio.Event
) -> None:
    """Serves until `stop`; the end of the loop cancels the connections that are open then."""
    servers = [await asyncio.start_server(_make_handler(relay.target), sock=listening) for relay, listening in relays]
    begun.set_result(asyncio.get_running_loop())
    await stop.wait()
    for server in servers:
        server.close()


def _make_handler(target: tuple[str, int]) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _relay(target, reader, writer)
        except* (OSError, asyncio.CancelledError):
            pass  # one end has gone, or the relays end
        finally:
            writer.close()

    return connected


async def _relay(target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(CONNECT_S):
            there = await asyncio.open_connection(*target)
    except (OSError, TimeoutError):
        await _answer_unavailable(reader, writer)
        return
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(reader, there[1]))
            both.create_task(_copy(there[0], writer))
    finally:
        there[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _answer_unavailable(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers 503 once the head of the request is read: an earlier answer may be lost."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(CONNECT_S):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(UNAVAILABLE)
            await writer.drain()
