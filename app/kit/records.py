"""Records in Redis: a hash per record, changed only by compare-and-set, every change announced on a channel.

Each change is one script, hence one round trip and one step: the guard, the fields, the indexes and the nudge happen
together or not at all. This module knows hashes, guards and claims; what the fields mean is the capability's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import redis

NUDGES = "nudge:"  # channel of a record: nudge:<its key>

_CREATE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[1], ARGV[2])
redis.call('PUBLISH', 'nudge:' .. KEYS[1], 1)
return 1
"""

# KEYS: record, active index, a text beside the record to drop. ARGV: ttl in seconds ('' while the record is active),
# id in the active index, number of guards, is the record wanted back ('1'), (field, '|allowed|values|') per guard, then
# field, value, ...
_CHANGE = """
local first = 5 + 2 * ARGV[3]
for i = 5, first - 1, 2 do
  local value = redis.call('HGET', KEYS[1], ARGV[i])
  if not value or not string.find(ARGV[i + 1], '|' .. value .. '|', 1, true) then return {} end
end
redis.call('HSET', KEYS[1], unpack(ARGV, first))
if ARGV[1] ~= '' then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[2])
end
if KEYS[3] then redis.call('UNLINK', KEYS[3]) end
redis.call('PUBLISH', 'nudge:' .. KEYS[1], 1)
return ARGV[4] == '1' and redis.call('HGETALL', KEYS[1]) or {'changed', '1'}
"""

# ARGV: claim, ttl of the worker's sign of life in ms, its text, field, value, ... Returns 1 while the claim stands.
_BEAT = """
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
if redis.call('HGET', KEYS[1], 'claim') ~= ARGV[1] then return 0 end
if #ARGV > 3 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 4))
  redis.call('PUBLISH', 'nudge:' .. KEYS[1], 0)
end
return 1
"""

# ARGV: cap in bytes, ttl in seconds, text. Returns the length afterwards.
_APPEND = """
local size = redis.call('STRLEN', KEYS[1])
if size < tonumber(ARGV[1]) then
  size = redis.call('APPEND', KEYS[1], string.sub(ARGV[3], 1, ARGV[1] - size))
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return size
"""


class Records:
    """kind: prefix of the keys, `<kind>:<id>`; the indexes are `<kind>s` (all) and `<kind>s:active`."""

    def __init__(self, client: redis.Redis, kind: str) -> None:
        self.client: Any = client  # redis-py types every answer as one of the sync or the async client
        self.kind = kind
        self.all_index = f"{kind}s"
        self.active_index = f"{kind}s:active"
        self._create = client.register_script(_CREATE)
        self._change = client.register_script(_CHANGE)
        self._beat = client.register_script(_BEAT)
        self._append = client.register_script(_APPEND)

    def key(self, record_id: str) -> str:
        return f"{self.kind}:{record_id}"

    def create(self, record_id: str, fields: Mapping[str, str], *, score: float) -> bool:
        """False when a record of this id exists already."""
        keys = [self.key(record_id), self.all_index, self.active_index]
        return bool(self._create(keys=keys, args=[score, record_id, *_flat(fields)]))

    def read(self, record_id: str) -> dict[str, str] | None:
        return _texts(self.client.hgetall(self.key(record_id)))

    def read_many(self, record_ids: Iterable[str]) -> list[dict[str, str] | None]:
        with self.client.pipeline(transaction=False) as pipe:
            for record_id in record_ids:
                pipe.hgetall(self.key(record_id))
            return [_texts(fields) for fields in pipe.execute()]

    def change(
        self, record_id: str, guards: Mapping[str, Iterable[str]], fields: Mapping[str, str], *, ttl_s: int | None,
        drop_text: str = "", want_record: bool = False,
    ) -> dict[str, str] | None:  # fmt: skip
        """Set fields if every guarded field has one of its allowed values now.

        Returns None when a guard refused or there is no such record; otherwise the whole record as it is afterwards if
        that is wanted, for reading it takes longer than changing it. ttl_s: given when the record has come to its end.
        drop_text: name of a text beside the record that is no longer needed.
        """
        keys = [self.key(record_id), self.active_index]
        if drop_text:
            keys.append(f"{self.key(record_id)}:{drop_text}")
        conditions = [part for field, allowed in guards.items() for part in (field, f"|{'|'.join(allowed)}|")]
        args: list[Any] = [
            "" if ttl_s is None else ttl_s, record_id, len(guards), "1" if want_record else "", *conditions,
            *_flat(fields),
        ]  # fmt: skip
        found = self._change(keys=keys, args=args)
        return _texts(dict(zip(found[::2], found[1::2], strict=True))) if found else None

    def beat(
        self, record_id: str, claim: str, *, worker: str, worker_text: str, ttl_ms: int, fields: Mapping[str, str]
    ) -> bool:
        """A worker's sign of life, and its progress. False when its claim on the record no longer stands."""
        args: list[Any] = [claim, ttl_ms, worker_text, *_flat(fields)]
        return bool(self._beat(keys=[self.key(record_id), worker_key(worker)], args=args))

    def append(self, record_id: str, name: str, text: bytes, *, cap_bytes: int, ttl_s: int) -> None:
        """Add to a text that lies beside the record (a live log), up to its cap."""
        self._append(keys=[f"{self.key(record_id)}:{name}"], args=[cap_bytes, ttl_s, text])

    def tail(self, record_id: str, name: str, offset: int) -> bytes:
        text: bytes = self.client.getrange(f"{self.key(record_id)}:{name}", offset, -1)
        return text

    def active_ids(self) -> list[str]:
        return [_text(i) for i in self.client.zrange(self.active_index, 0, -1)]

    def ids_before(self, score: str, count: int) -> list[tuple[str, float]]:
        """Newest first: ids with a score below this one ('+inf', or '(' and a number for exclusive)."""
        found = self.client.zrevrangebyscore(self.all_index, score, "-inf", start=0, num=count, withscores=True)
        return [(_text(i), float(s)) for i, s in found]

    def delete(self, record_id: str) -> None:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.delete(self.key(record_id))
            pipe.zrem(self.all_index, record_id)
            pipe.zrem(self.active_index, record_id)
            pipe.publish(NUDGES + self.key(record_id), 0)
            pipe.execute()

    def forget(self, record_ids: Iterable[str]) -> None:
        """Take ids of expired records out of the indexes."""
        gone = list(record_ids)
        if gone:
            self.client.zrem(self.all_index, *gone)
            self.client.zrem(self.active_index, *gone)


def worker_key(worker: str) -> str:
    return f"worker:{worker}"


def living_workers(client: Any) -> Iterator[tuple[str, str]]:
    """Name and text of every worker whose sign of life has not expired."""
    keys = sorted(_text(k) for k in client.scan_iter(match="worker:*", count=500))
    for key, text in zip(keys, client.mget(keys) if keys else [], strict=True):
        if text is not None:
            yield key.removeprefix("worker:"), _text(text)


def _flat(fields: Mapping[str, str]) -> list[str]:
    return [part for item in fields.items() for part in item]


def _texts(fields: Mapping[Any, Any]) -> dict[str, str] | None:
    return {_text(k): _text(v) for k, v in fields.items()} or None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
