"""Heartbeats of worker processes in Redis: a text per worker that expires, and an index of them.

The index avoids scanning all keys. It may contain dead workers; the text decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

INDEX = "workers"
"""Keys of the heartbeats, scored with the time of the last one, by the writer's clock."""
FORGOTTEN_S = 86400
PREFIX = "worker:"


def worker_key(worker: str) -> str:
    return PREFIX + worker


def announce(client: Any, worker: str, text: str, ttl_s: float) -> None:
    """Records the heartbeat of an idle worker. A busy worker sends it with its progress (records).

    Args:
        text: the worker's description of itself, as JSON.
        ttl_s: time without a heartbeat after which the worker counts as dead.
    """
    with client.pipeline(transaction=True) as pipe:
        pipe.set(worker_key(worker), text, px=int(ttl_s * 1000))
        pipe.zadd(INDEX, {worker_key(worker): int(time.time())})
        pipe.execute()


def retire(client: Any, worker: str) -> None:
    """Records that the worker has ended."""
    with client.pipeline(transaction=True) as pipe:
        pipe.delete(worker_key(worker))
        pipe.zrem(INDEX, worker_key(worker))
        pipe.execute()


def living_workers(client: Any) -> Iterator[tuple[str, str]]:
    """Returns name and text of every worker whose heartbeat has not expired, by name."""
    client.zremrangebyscore(INDEX, "-inf", int(time.time()) - FORGOTTEN_S)
    keys = sorted(client.zrange(INDEX, 0, -1))
    for key, text in zip(keys, client.mget(keys) if keys else [], strict=True):
        if text is not None:
            yield key.decode().removeprefix(PREFIX), text.decode()
