"""Signs of life of worker processes in Redis: a text per worker that expires, and an index of them.

The index is there so that who wants to know the living need not scan all keys. It may name the dead; the text tells.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

INDEX = "workers"
"""Keys of the signs of life, scored with the time they were last given, by anybody's clock."""
FORGOTTEN_S = 86400
PREFIX = "worker:"


def worker_key(worker: str) -> str:
    return PREFIX + worker


def announce(client: Any, worker: str, text: str, ttl_s: float) -> None:
    """A sign of life of a worker that has nothing to do. One that has gives it with its beats (records).

    Args:
        text: what the worker says of itself, as JSON.
        ttl_s: when nothing more is heard for so long, the worker counts as dead.
    """
    with client.pipeline(transaction=True) as pipe:
        pipe.set(worker_key(worker), text, px=int(ttl_s * 1000))
        pipe.zadd(INDEX, {worker_key(worker): int(time.time())})
        pipe.execute()


def retire(client: Any, worker: str) -> None:
    """The worker has ended and says so."""
    with client.pipeline(transaction=True) as pipe:
        pipe.delete(worker_key(worker))
        pipe.zrem(INDEX, worker_key(worker))
        pipe.execute()


def living_workers(client: Any) -> Iterator[tuple[str, str]]:
    """Name and text of every worker whose sign of life has not expired, by name."""
    client.zremrangebyscore(INDEX, "-inf", int(time.time()) - FORGOTTEN_S)
    keys = sorted(client.zrange(INDEX, 0, -1))
    for key, text in zip(keys, client.mget(keys) if keys else [], strict=True):
        if text is not None:
            yield key.decode().removeprefix(PREFIX), text.decode()
