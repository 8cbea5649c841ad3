"""A lease for as long as a request lasts: acquired, renewed and released without blocking the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import redis
from starlette.concurrency import run_in_threadpool

from app.kit.redis.lease import RedisLease

RETRY_S = 0.1


@asynccontextmanager
async def hold_for_request(lease: RedisLease, *, wait_s: float) -> AsyncIterator[bool]:
    """Acquires the lease, renews it, and releases it at the end.

    Args:
        wait_s: how long to wait until it is free, in seconds.

    Yields:
        Whether the lease was acquired.
    """
    deadline = time.monotonic() + wait_s
    while not await run_in_threadpool(lease.take):
        if time.monotonic() >= deadline:
            yield False
            return
        await asyncio.sleep(RETRY_S)
    renewal = asyncio.create_task(_renew(lease))
    try:
        yield True
    finally:
        renewal.cancel()
        with suppress(redis.RedisError):
            await asyncio.shield(run_in_threadpool(lease.release))


async def _renew(lease: RedisLease) -> None:
    while True:
        await asyncio.sleep(lease.ttl_s / 3)
        with suppress(redis.RedisError):
            await run_in_threadpool(lease.renew)
