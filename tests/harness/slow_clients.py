"""Clients that stall, trickle or never end their headers, beside those that are honest and slow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.kit.process import own_process
from tests.harness.deployment import Deployment
from tests.harness.users import Person

STALLED, HEADERS, HONEST = 500, 500, 40
PIECES, PIECE_BYTES, PAUSE_S = 12, 2000, 0.5
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def begin(deployment: Deployment, head: str) -> Connection:
    reader, writer = await asyncio.open_connection("127.0.0.1", deployment.web_port)
    writer.write(head.encode())
    await writer.drain()
    return reader, writer


def upload(who: Person, name: str, size: int, begun: str = "") -> str:
    return (
        f"PUT /api/v2/files/content?path=datasets/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {who.token}\r\nContent-Length: {size}\r\n\r\n{begun}"
    )


async def status_of(connection: Connection) -> int:
    try:
        line = await connection[0].readline()
    finally:
        await close(connection)
    return int(line.split()[1]) if line else 0


async def close(connection: Connection) -> None:
    connection[1].close()
    with contextlib.suppress(OSError):
        await connection[1].wait_closed()


async def honest(deployment: Deployment, who: Person, number: int) -> int:
    """A slow line: it pauses and goes on."""
    connection = await begin(deployment, upload(who, f"slow-{number}", PIECES * PIECE_BYTES))
    try:
        for _ in range(PIECES):
            await asyncio.sleep(PAUSE_S)
            connection[1].write(b"x" * PIECE_BYTES)
            await connection[1].drain()
        return await status_of(connection)
    finally:
        await close(connection)


@asynccontextmanager
async def stalled_clients(deployment: Deployment, who: Person) -> AsyncIterator[list[asyncio.Task[int]]]:
    """Headers that never end, and uploads that stall: their statuses."""
    own_process.raise_limit()
    headers = [await begin(deployment, "GET /ui/login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-") for _ in range(HEADERS)]
    uploads = []
    try:
        for number in range(STALLED):
            connection = await begin(deployment, upload(who, f"stalled-{number}", 10**6, "abc"))
            uploads.append(asyncio.create_task(status_of(connection)))
        yield uploads
    finally:
        for task in uploads:
            task.cancel()
        await asyncio.gather(*uploads, return_exceptions=True)
        for connection in headers:
            await close(connection)


async def honest_uploads(deployment: Deployment, who: Person, look: Callable[[], Awaitable[None]]) -> list[int]:
    """Their statuses. look: done again and again meanwhile."""
    uploads = [asyncio.create_task(honest(deployment, who, number)) for number in range(HONEST)]
    while not all(task.done() for task in uploads):
        await look()
    return [await task for task in uploads]
