"""Nudges: "this record changed", from Redis to whoever watches in this process. They carry no data.

One subscription per web process, however many viewers; each viewer has one flag, so that a slow one sees the newest
state and not every state. After a lost connection all flags are raised: a watcher re-reads, nobody misses an end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator

import redis
import redis.asyncio

from app.kit.records import NUDGES

RECONNECT_S = 0.5


class NudgeHub:
    """Run `run()` as a task for the life of the application; `watch(key)` in each handler."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._flags: dict[str, set[asyncio.Event]] = defaultdict(set)

    @contextlib.contextmanager
    def watch(self, key: str) -> Iterator[asyncio.Event]:
        """A flag that is raised at each change of the record with this key. Watch first, then read."""
        flag = asyncio.Event()
        self._flags[key].add(flag)
        try:
            yield flag
        finally:
            self._flags[key].discard(flag)
            if not self._flags[key]:
                del self._flags[key]

    @property
    def viewers(self) -> int:
        return sum(len(flags) for flags in self._flags.values())

    async def run(self) -> None:
        """Listen until cancelled, reconnecting for ever."""
        while True:
            try:
                async for key in self._listen():
                    self._raise(self._flags.get(key, ()))
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                self._raise(flag for flags in self._flags.values() for flag in flags)
                await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> AsyncIterator[str]:
        client = redis.asyncio.Redis.from_url(self.url, socket_timeout=None, health_check_interval=10)
        async with client, client.pubsub() as pubsub:
            await pubsub.psubscribe(f"{NUDGES}*")
            self._raise(flag for flags in self._flags.values() for flag in flags)
            async for message in pubsub.listen():
                if message["type"] == "pmessage":
                    yield message["channel"].decode().removeprefix(NUDGES)

    @staticmethod
    def _raise(flags: Iterator[asyncio.Event] | set[asyncio.Event] | tuple[()]) -> None:
        for flag in flags:
            flag.set()


async def changed(flag: asyncio.Event, timeout_s: float) -> bool:
    """Wait for the flag and lower it. False after timeout_s without a change."""
    try:
        await asyncio.wait_for(flag.wait(), timeout_s)
    except TimeoutError:
        return False
    flag.clear()
    return True
