"""Further ports at which a server answers: each connection is passed on as it is. In a thread of its own."""

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
_SORRY = json.dumps({"status": 1, "error": "What answers here is not up yet: try again in a moment."}).encode()
NOT_UP = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_SORRY), _SORRY)
)


@dataclass(frozen=True)
class Relay:
    """From a port of 127.0.0.1 to (host, port). option: by which another port is chosen."""

    port: int
    target: tuple[str, int]
    option: str


@contextlib.contextmanager
def relaying(relays: Sequence[Relay]) -> Iterator[None]:
    """Raises CannotStart for a port that is taken. Only this machine is answered: who asks looks local to a target."""
    sockets = list[socket.socket]()
    try:
        for relay in relays:
            sockets.append(_listening(relay))
        stop = asyncio.Event()
        begun: Future[asyncio.AbstractEventLoop] = Future()
        answering = _answering(list(zip(relays, sockets, strict=True)), begun, stop)
        thread = threading.Thread(target=asyncio.run, args=(answering,), name="relays")
        thread.start()
        try:
            loop = begun.result()
            yield
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
    finally:
        for one in sockets:
            one.close()


def _listening(relay: Relay) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", relay.port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise CannotStart(
            f"port {relay.port} on 127.0.0.1 cannot be had: {error.strerror}", hint=f"Choose another {relay.option}."
        ) from error
    return made


async def _answering(
    relays: list[tuple[Relay, socket.socket]], begun: Future[asyncio.AbstractEventLoop], stop: asyncio.Event
) -> None:
    """What is still connected then is cancelled, by the end of the loop."""
    servers = [await asyncio.start_server(_to(relay.target), sock=listening) for relay, listening in relays]
    begun.set_result(asyncio.get_running_loop())
    await stop.wait()
    for server in servers:
        server.close()


def _to(target: tuple[str, int]) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _relayed(target, reader, writer)
        except* (OSError, asyncio.CancelledError):
            pass  # one end has gone, or the relays end
        finally:
            writer.close()

    return connected


async def _relayed(target: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(CONNECT_S):
            there = await asyncio.open_connection(*target)
    except (OSError, TimeoutError):
        await _sorry(reader, writer)
        return
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pass(reader, there[1]))
            both.create_task(_pass(there[0], writer))
    finally:
        there[1].close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _sorry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """After the head of the request: an answer to nothing may be lost."""
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(CONNECT_S):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(NOT_UP)
            await writer.drain()
