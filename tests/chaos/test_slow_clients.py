"""Clients that stall, trickle or never end their headers hold up nobody else, and are let go."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.deployment import Deployment
from tests.harness.users import Person, person

pytestmark = pytest.mark.slow

STALLED, HEADERS, HONEST, PER_USER = 500, 500, 40, 45
IDLE_S = 6.0
PIECES, PIECE_BYTES, PAUSE_S = 12, 2000, 0.5
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    limits = {"uploads_per_user": str(PER_USER), "upload_idle_s": str(IDLE_S)}
    with Deployment(tmp_path_factory.mktemp("slow"), accounts="true", **limits) as made:
        made.web()
        yield made


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
    for _ in range(PIECES):
        await asyncio.sleep(PAUSE_S)
        connection[1].write(b"x" * PIECE_BYTES)
        await connection[1].drain()
    return await status_of(connection)


async def beside(deployment: Deployment, mallory: Person, alice: Person) -> tuple[list[int], list[int], Counter[int]]:
    """Statuses of the honest uploads, of what else alice asks for meanwhile, and of the stalled uploads."""
    headers = [await begin(deployment, "GET /ui/login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-") for _ in range(HEADERS)]
    stalled = [
        asyncio.create_task(status_of(await begin(deployment, upload(mallory, f"stalled-{number}", 10**6, "abc"))))
        for number in range(STALLED)
    ]
    uploads = [asyncio.create_task(honest(deployment, alice, number)) for number in range(HONEST)]
    asked = []
    async with httpx.AsyncClient(base_url=deployment.url, timeout=IDLE_S / 2, trust_env=False) as client:
        while not all(task.done() for task in uploads):
            for path, sent in (("/healthz", {}), ("/ui/login", {}), ("/api/v2/me", alice.bearer)):
                asked.append((await client.get(path, headers=sent)).status_code)
            await asyncio.sleep(PAUSE_S)
    found = [await task for task in uploads]
    ended = Counter([await task for task in stalled])
    for connection in headers:
        await close(connection)
    return found, asked, ended


def test_stalled_uploads_and_headers_hold_up_nobody_and_slow_lines_come_through(deployment: Deployment) -> None:
    mallory, alice = person(deployment, "mallory"), person(deployment, "alice")
    found, asked, ended = asyncio.run(asyncio.wait_for(beside(deployment, mallory, alice), 120))
    assert found == [201] * HONEST
    assert set(asked) == {200} and len(asked) >= PIECES
    assert ended == {408: PER_USER, 429: STALLED - PER_USER}
    with alice.api() as api:
        listed = api.http.get("/api/v2/files", params={"path": "datasets", "limit": 200}).json()
    assert {entry["size_bytes"] for entry in listed["entries"]} == {PIECES * PIECE_BYTES}


def test_nothing_is_left_of_an_upload_that_was_cut_off(deployment: Deployment) -> None:
    mallory = person(deployment, "mallory")

    async def story() -> int:
        return await status_of(await begin(deployment, upload(mallory, "cut", 10**6, "abc")))

    assert asyncio.run(story()) == 408
    home = Path(deployment.settings().homes) / "users" / "mallory"
    deadline = time.monotonic() + 10
    while [path for path in home.rglob("*") if path.is_file()]:
        assert time.monotonic() < deadline, "the part that came is still there"
        time.sleep(0.05)
