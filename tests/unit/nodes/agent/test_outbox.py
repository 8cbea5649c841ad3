"""What the web is to be told, while the agent's own disk has no room."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from app.nodes.agent.outbox import Outbox
from app.nodes.agent.store import Store
from app.nodes.agent.web import Web


class Listener:
    """It takes everything."""

    token = "mn"

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def post(self, _: str, body: bytes, __: str) -> None:
        self.heard.append(body)


async def until(is_so: Any) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


async def _tell_with_a_full_disk(store: Store, listener: Listener) -> None:
    outbox = Outbox(store, cast(Web, listener))
    outbox.push("/a", b"x", "text/plain")
    store._db.execute("PRAGMA query_only = ON")  # fails as a disk without room does
    running = asyncio.create_task(outbox.run())
    await until(lambda: listener.heard)
    store._db.execute("PRAGMA query_only = OFF")
    outbox.hurry()
    await until(lambda: running.done() or store.oldest() is None)
    assert not running.done()
    running.cancel()


def test_a_disk_without_room_ends_no_agent(tmp_path: Path) -> None:
    store, listener = Store(tmp_path / "agent.db", "edge0"), Listener()
    asyncio.run(_tell_with_a_full_disk(store, listener))
    assert set(listener.heard) == {b"x"}
    store.close()
