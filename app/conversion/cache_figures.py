"""What the cache of stages is worth: how often it had what was asked for, what that saved, how much it holds.

One hash in Redis, which begins anew when Redis does, as the counters of Prometheus may.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import redis

from app.conversion.model import Stage

HASH = "stage-cache"
BYTES, ENTRIES, SAVED_S = "bytes", "entries", "saved_s"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CacheUse:
    hits: dict[str, int] = field(default_factory=dict)
    """By step, as misses."""
    misses: dict[str, int] = field(default_factory=dict)
    saved_s: float = 0.0
    """What the hits would have taken, in seconds."""
    size_bytes: int = 0
    """At the last sweep."""
    entries: int = 0


class CacheFigures:
    def __init__(self, client: redis.Redis) -> None:
        self._client: Any = client

    def count_hit(self, stage: Stage, saved_s: float) -> None:
        """Never raises: work does not wait for its figures."""
        self._add({f"hit:{stage.step}": 1, SAVED_S: saved_s})

    def count_miss(self, stage: Stage) -> None:
        """Likewise."""
        self._add({f"miss:{stage.step}": 1})

    def note_size(self, size_bytes: int, entries: int) -> None:
        """Raises redis.RedisError."""
        self._client.hset(HASH, mapping={BYTES: size_bytes, ENTRIES: entries})

    def read(self) -> CacheUse:
        """Raises redis.RedisError."""
        return use_of(self._client.hgetall(HASH))

    def _add(self, amounts: dict[str, float]) -> None:
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for name, amount in amounts.items():
                    pipe.hincrbyfloat(HASH, name, amount)
                pipe.execute()
        except redis.RedisError as error:
            logger.debug("A use of the cache of stages is not counted: %s", error)


def use_of(fields: dict[bytes, bytes]) -> CacheUse:
    """Of the hash as Redis gives it."""
    values = {name.decode(): float(value) for name, value in fields.items()}

    def by_step(kind: str) -> dict[str, int]:
        return {stage.step: int(values.get(f"{kind}:{stage.step}", 0)) for stage in Stage}

    size_bytes, entries = int(values.get(BYTES, 0)), int(values.get(ENTRIES, 0))
    return CacheUse(by_step("hit"), by_step("miss"), values.get(SAVED_S, 0.0), size_bytes, entries)
