"""Notifications "this record changed", from Redis to the viewers in this process. They carry no data.

One subscription per web process, however many viewers. Each viewer has one flag, so that a slow one sees the newest
state and not every state. After a lost connection all flags are raised: viewers read again, and nobody misses an end.
Data that all viewers of a change need is read once and shared.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import redis
import redis.asyncio
from starlette.concurrency import run_in_threadpool

from app.kit.redis.records import CHANGES

RECONNECT_S = 0.5
SHARED_FOR_S = 1.0
T = TypeVar("T")


def any_of(kind: str) -> str:
    """Returns the key for watching all records of a kind.

    Args:
        kind: the prefix of its records' keys, before the colon.
    """
    return f"{kind}:*"


@dataclass
class _Shared:
    """The data that one user's viewers of a record share: how it is made, when that started, and its result."""

    make: Callable[[], Any]
    began_at: float
    task: asyncio.Task[Any]


class ChangeHub:
    """Run `run()` as a task during the life of the application; `watch(key)` in each handler."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._flags: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._shared: dict[str, dict[str, _Shared]] = defaultdict(dict)
        self.is_ending = False

    def set(self) -> None:
        """The process is about to end: every viewer wakes up, and should leave. (Named like an event's method, to be
        one.)"""
        if not self.is_ending:
            self.is_ending = True
            for key in self._flags:
                self._raise(key)

    @contextlib.contextmanager
    def watch(self, *keys: str) -> Iterator[asyncio.Event]:
        """Yields a flag that is raised at each change of the records with these keys. Watch first, then read.

        Args:
            keys: the key of a record each, or `any_of` a kind.
        """
        flag = asyncio.Event()
        for key in keys:
            self._flags[key].add(flag)
        try:
            yield flag
        finally:
            for key in keys:
                self._flags[key].discard(flag)
                if not self._flags[key]:
                    del self._flags[key]
                    self._shared.pop(key, None)

    async def shared(self, key: str, user: str, make: Callable[[], T]) -> T:
        """Returns the result of `make` in a thread, computed once for all viewers of this user, and again at each
        change of the key.

        It is never older than SHARED_FOR_S, because some data changes without a notification. Watch the key first.
        """
        frames = self._shared[key].get(user)
        if frames is None or asyncio.get_running_loop().time() - frames.began_at > SHARED_FOR_S:
            frames = self._shared[key][user] = _begin(make)
        return await asyncio.shield(frames.task)  # one viewer may leave while the others stay

    @property
    def viewers(self) -> int:
        return len({flag for flags in self._flags.values() for flag in flags})

    async def run(self) -> None:
        """Listens until cancelled, reconnecting forever."""
        while True:
            try:
                async for key in self._listen():
                    self._notify([key, any_of(key.partition(":")[0])])
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                self._notify(self._flags)
                await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> AsyncIterator[str]:
        client = redis.asyncio.Redis.from_url(self.url, socket_timeout=None, health_check_interval=10)
        async with client, client.pubsub() as pubsub:
            await pubsub.psubscribe(f"{CHANGES}*")
            self._notify(self._flags)
            async for message in pubsub.listen():
                if message["type"] == "pmessage":
                    yield message["channel"].decode().removeprefix(CHANGES)

    def _notify(self, keys: Iterable[str]) -> None:
        """Wakes the viewers: at once, or after their shared data has been read again, so that it is ready for each."""
        for key in list(keys):
            shown = self._shared.get(key)
            if not shown:
                self._raise(key)
                continue
            for user, old in shown.items():
                shown[user] = _begin(old.make)
                shown[user].task.add_done_callback(partial(self._handle_made, key))

    def _handle_made(self, key: str, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # a viewer will get the same error; if there are none left, it does not matter
        self._raise(key)

    def _raise(self, key: str) -> None:
        for flag in self._flags.get(key, ()):
            flag.set()


def _begin(make: Callable[[], Any]) -> _Shared:
    task = asyncio.ensure_future(run_in_threadpool(make))
    return _Shared(make, asyncio.get_running_loop().time(), task)


async def changed(flag: asyncio.Event, timeout_s: float) -> bool:
    """Waits for the flag and lowers it. False after timeout_s without a change."""
    try:
        async with asyncio.timeout(timeout_s):
            await flag.wait()
    except TimeoutError:
        return False
    flag.clear()
    return True
