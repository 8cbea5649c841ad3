"""Hands bytes from the event loop to a thread, a bounded number of them at a time.

The loop's side is `await put(item)`; the thread's side is plain iteration. Items are passed in batches of about
BATCH_BYTES, because each handover costs more than the bytes do.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")
R = TypeVar("R")
BATCH_BYTES = 1 << 20
MAX_BATCHES = 4
RECEIVERS = 256
"""Threads that receive uploads: a separate pool, because each is held until its sender is done. More than
MODELMILL_UPLOADS_AT_ONCE, so that small bodies, which hold no slot, find one too."""
_receivers: RunVar[CapacityLimiter] = RunVar("receivers of uploads")


class Abandoned(Exception):
    """The sender disconnected before the end: the received part must not be kept."""


class ThreadStream(Generic[T]):
    """Create it on the event loop. One sender, one receiver."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._room.set()
        self._condition = threading.Condition()
        self._batches: deque[list[T]] = deque()
        self._batch: list[T] = []
        self._batch_bytes = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._closed = False

    async def put(self, item: T, size_bytes: int = 0) -> None:
        self._batch.append(item)
        self._batch_bytes += size_bytes
        if self._batch_bytes >= BATCH_BYTES:
            await self._pass_on()

    async def end(self, failure: BaseException | None = None) -> None:
        """No more items. With a failure, the receiver gets it raised instead of the end."""
        await self._pass_on(wait=failure is None)
        with self._condition:
            self._ended, self._failure = True, failure
            self._condition.notify()

    def close(self) -> None:
        """The receiver takes no more items: further ones are discarded."""
        with self._condition:
            self._closed = True
            self._batches.clear()
        self._loop.call_soon_threadsafe(self._room.set)

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._batches or self._ended)
                if not self._batches:
                    if self._failure is not None:
                        raise self._failure
                    return
                batch = self._batches.popleft()
            self._loop.call_soon_threadsafe(self._room.set)
            yield from batch

    async def _pass_on(self, *, wait: bool = True) -> None:
        while wait and not self._closed and len(self._batches) >= MAX_BATCHES:
            self._room.clear()
            if len(self._batches) >= MAX_BATCHES:
                await self._room.wait()
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if batch and not self._closed:
            with self._condition:
                self._batches.append(batch)
                self._condition.notify()


async def receive_in_thread(receive: Callable[..., R], *arguments: Any) -> R:
    """Runs the consumer of a Handover in a thread that no page waits for."""
    try:
        limiter = _receivers.get()
    except LookupError:
        limiter = CapacityLimiter(RECEIVERS)
        _receivers.set(limiter)
    return await to_thread.run_sync(receive, *arguments, limiter=limiter)


async def hand_over(chunks: AsyncIterable[bytes], receive: Callable[[Iterator[bytes]], R]) -> R:
    """Returns the result of `receive`, which consumes the chunks in a thread as they arrive. If it fails, no more are
    requested.

    If they end with an error, `receive` gets Abandoned instead of the end, and the error is raised here.
    """
    handover: ThreadStream[bytes] = ThreadStream()
    receiving = asyncio.create_task(receive_in_thread(lambda: receive(iter(handover))))
    receiving.add_done_callback(lambda _: handover.close())
    try:
        async for chunk in chunks:
            if receiving.done():
                break
            await handover.put(chunk, len(chunk))
        await handover.end()
    except BaseException as error:
        await handover.end(Abandoned(str(error)))
        with suppress(Exception):  # report the first error
            await receiving
        raise
    return await receiving
