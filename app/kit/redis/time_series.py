"""Points of a plot, in Redis: a number of the newest ones, with a minimum distance. Forgotten when Redis restarts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import redis

from app.kit.clock import from_text
from app.kit.text.json_values import JsonObject

TTL_S = 86400


class TimeSeries:
    """Points of several series; a point is JSON with its time `at`.

    Args:
        prefix: of the keys.
        most: number of points that are kept.
        every_s: minimum distance to the previous point, in seconds; closer points are dropped.
    """

    def __init__(self, client: redis.Redis, prefix: str, *, most: int, every_s: float) -> None:
        self._client: Any = client
        self._prefix, self._most, self._every_s = prefix, most, every_s

    def add(self, uid: str, point: Mapping[str, Any]) -> None:
        """While Redis is unreachable the plot has a gap."""
        key = self._build_key(uid)
        try:
            newest = self._client.lindex(key, -1)
            if newest and 0 <= _measure_seconds_between(json.loads(newest)["at"], point["at"]) < self._every_s:
                return
            with self._client.pipeline(transaction=True) as pipe:
                pipe.rpush(key, json.dumps(dict(point)))
                pipe.ltrim(key, -self._most, -1)
                pipe.expire(key, TTL_S)
                pipe.execute()
        except redis.RedisError:
            return

    def all(self, uid: str) -> list[JsonObject]:
        """Returns the oldest first."""
        try:
            return [json.loads(text) for text in self._client.lrange(self._build_key(uid), 0, -1)]
        except redis.RedisError:
            return []

    def forget(self, uid: str) -> None:
        try:
            self._client.delete(self._build_key(uid))
        except redis.RedisError:
            return  # it expires by itself

    def _build_key(self, uid: str) -> str:
        return f"{self._prefix}:{uid}"


def _measure_seconds_between(earlier: str, later: str) -> float:
    return (from_text(later) - from_text(earlier)).total_seconds()
