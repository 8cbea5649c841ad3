"""Nudges: "this record changed", from Redis to whoever watches in this process. They carry no data.

One subscription per web process, however many viewers; each viewer has one flag, so that a slow one sees the newest
state and not every state. After a lost connection all flags are raised: a watcher re-reads, nobody misses an end.
What all viewers of a change need is made once and shared.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeVar

import redis
import redis.asyncio
from starlette.concurrency import run_in_threadpool

from app.kit.records import NUDGES

RECONNECT_S = 0.5
SHARED_FOR_S = 1.0
T = TypeVar("T")


class NudgeHub:
    """Run `run()` as a task for the life of the application; `watch(key)` in each handler."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._flags: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._made: dict[tuple[str, str], tuple[float, asyncio.Task[Any]]] = {}

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
                self._forget(key)

    async def shared(self, key: str, user: str, make: Callable[[], T]) -> T:
        """What `make` returns in a thread, made once for all viewers of this user since the last nudge of the key.

        Not older than SHARED_FOR_S, for some of what is shown changes without a nudge.
        """
        now = asyncio.get_running_loop().time()
        made_at, task = self._made.get((key, user), (0.0, None))
        if task is None or now - made_at > SHARED_FOR_S:
            task = asyncio.ensure_future(run_in_threadpool(make))
            self._made[key, user] = (now, task)
        if task.done():
            return task.result()  # type: ignore[no-any-return]
        return await asyncio.shield(task)  # a viewer that leaves must not take the others' answer along

    @property
    def viewers(self) -> int:
        return sum(len(flags) for flags in self._flags.values())

    async def run(self) -> None:
        """Listen until cancelled, reconnecting for ever."""
        while True:
            try:
                async for key in self._listen():
                    self._nudge([key])
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                self._nudge(self._flags)
                await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> AsyncIterator[str]:
        client = redis.asyncio.Redis.from_url(self.url, socket_timeout=None, health_check_interval=10)
        async with client, client.pubsub() as pubsub:
            await pubsub.psubscribe(f"{NUDGES}*")
            self._nudge(self._flags)
            async for message in pubsub.listen():
                if message["type"] == "pmessage":
                    yield message["channel"].decode().removeprefix(NUDGES)

    def _nudge(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self._forget(key)
            for flag in self._flags.get(key, ()):
                flag.set()

    def _forget(self, key: str) -> None:
        for made in [made for made in self._made if made[0] == key]:
            del self._made[made]


async def changed(flag: asyncio.Event, timeout_s: float) -> bool:
    """Wait for the flag and lower it. False after timeout_s without a change."""
    try:
        async with asyncio.timeout(timeout_s):
            await flag.wait()
    except TimeoutError:
        return False
    flag.clear()
    return True
