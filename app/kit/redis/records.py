"""Records in Redis: a hash per record, changed only by compare-and-set, every change announced on a channel.

Each change is one script, hence one round trip and one atomic step: the guard, the fields, the indexes and the
notification happen together or not at all. This module handles hashes, guards and claims; capabilities define fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import redis

from app.kit.redis import record_scripts as scripts
from app.kit.redis import worker_registry
from app.kit.redis.connections import ConnectionPool, Script, ScriptCall, as_map, database

CHANGES = "nudge:"  # channel of a record: nudge:<its key>


class CreateAnswer(IntEnum):
    """The outcome of creating a record."""

    EXISTS = 0
    CREATED = 1
    FULL = 2
    FULL_FOR_GROUP = 3


@dataclass(frozen=True)
class JobLimit:
    """How many records may be active at once: in total, and in this group."""

    most: int
    most_in_group: int
    group: str


@dataclass(frozen=True)
class OutgoingMessage:
    """A message that a change of a record sends in the same step: what the stock broker's enqueue writes, and where.
    Database and keys of the queue, id and text of the message.
    """

    database: int
    list_key: str
    texts_key: str
    message_id: str
    text: bytes


class Records:
    """Records of one kind, one hash each.

    Args:
        kind: prefix of the keys.
        group_field: field whose value groups the active records; empty: none.
        indexed: fields whose changes are reported to an index (record_index); creation and deletion always are.
    """

    def __init__(
        self, client: redis.Redis, kind: str, *, group_field: str = "", indexed: frozenset[str] = frozenset()
    ) -> None:
        self.client: Any = client  # redis-py types every answer as that of the sync or the async client
        self._database = database(client)
        self.kind = kind
        self.group_field = group_field
        self.all_index = f"{kind}s"
        self.active_index = f"{kind}s:active"
        self.index_prefix = f"{kind}s:index:"
        self.indexed = indexed
        lines = self._lines = ConnectionPool(client, encoding="utf-8")
        self._look = Script(lines, scripts.LOOK)
        self._create = Script(lines, scripts.CREATE)
        self._change = Script(lines, scripts.CHANGE)
        self._delete = Script(lines, scripts.DELETE)
        self._beat = Script(lines, scripts.BEAT)
        self._append = Script(lines, scripts.APPEND)

    def close(self) -> None:
        self._lines.close()

    def key(self, record_id: str) -> str:
        return f"{self.kind}:{record_id}"

    def create(
        self,
        record_id: str,
        fields: Mapping[str, str],
        *,
        score: float,
        room: JobLimit | None = None,
        message: OutgoingMessage | None = None,
    ) -> CreateAnswer:
        """Creates a record.

        Args:
            record_id: the id of the record.
            fields: its fields.
            score: its position in the list of all records.
            room: the limit. It is checked and used in one step, so that concurrent requests cannot exceed it.
            message: sent in the same step, if the record is created.
        """
        keys = [self.key(record_id), self.all_index, self.active_index]
        if self.group_field:
            keys.append(self._group_index(fields[self.group_field]))
        limits = (room.most, room.most_in_group) if room else ("", "")
        args: list[Any] = [score, record_id, self.key(""), *limits, *_list_parts(message), *_flatten(fields)]
        return CreateAnswer(self._create(keys=keys, args=args))

    def full(self, room: JobLimit) -> CreateAnswer | None:
        """FULL or FULL_FOR_GROUP if a record would be refused now; otherwise None."""
        keys = [self.active_index, self._group_index(room.group)]
        fullness = int(self._look(keys=keys, args=[self.key(""), room.most, room.most_in_group]))
        return CreateAnswer(fullness) if fullness else None

    def read(self, record_id: str) -> dict[str, str] | None:
        return _read_texts(self.client.hgetall(self.key(record_id)))

    def read_many(self, record_ids: Iterable[str]) -> list[dict[str, str] | None]:
        with self.client.pipeline(transaction=False) as pipe:
            for record_id in record_ids:
                pipe.hgetall(self.key(record_id))
            return [_read_texts(fields) for fields in pipe.execute()]

    def change_call(
        self,
        record_id: str,
        guards: Mapping[str, Iterable[str]],
        fields: Mapping[str, str],
        *,
        ttl_s: int | None,
        drop_text: str = "",
        message: OutgoingMessage | None = None,
    ) -> ScriptCall:
        """Returns a call that sets fields if every guarded field has one of its allowed values. It works from any
        database of the server.

        Args:
            record_id: the id of the record.
            guards: field → allowed values; at least one.
            fields: the new values.
            ttl_s: set if the record has ended.
            drop_text: name of a text beside the record to delete.
            message: sent in the same step, if the fields are set.

        Returns:
            A call that returns 1, or 0 if a guard refused or there is no such record.
        """
        index = self.index_prefix if ttl_s is not None or not self.indexed.isdisjoint(fields) else ""
        dropped = f"{self.key(record_id)}:{drop_text}" if drop_text else ""
        keys = [self.key(record_id), self.active_index, index, dropped]
        ttl = "" if ttl_s is None else ttl_s
        return ScriptCall(self._change, keys, [ttl, *self._list_changes(record_id, guards, fields, message)])

    def change_and_read(
        self, record_id: str, guards: Mapping[str, Iterable[str]], fields: Mapping[str, str]
    ) -> dict[str, str] | None:
        """Makes the change, and returns the record afterwards, changed or not, in the same round trip; None if it does
        not exist."""
        key = self.key(record_id)
        args = ["", *self._list_changes(record_id, guards, fields, None)]
        index = "" if self.indexed.isdisjoint(fields) else self.index_prefix
        flat_fields = self._change.ask([key, self.active_index, index, ""], args, ("HGETALL", key))[1]
        if isinstance(flat_fields, list):  # Redis' older protocol has no maps
            flat_fields = as_map(flat_fields)
        return flat_fields or None

    def claim_by_fetch(self, guards: Mapping[str, Iterable[str]], fields: Mapping[str, str]) -> list[Any]:
        """Returns the same as arguments of a fetch: what it is to do to the record that the message is about
        (blocking_consumer)."""
        return [self._database, self.key(""), len(guards), *guards, *_list_allowed(guards), *_flatten(fields)]

    def beat(
        self, record_id: str, claim: str, *, worker: str, worker_text: str, ttl_ms: int, fields: Mapping[str, str]
    ) -> bool:
        """Records a worker's heartbeat and its progress.

        Args:
            claim: the token of the claim on the record.
            worker_text: the worker's description of itself, as JSON.
            ttl_ms: time without a heartbeat after which the worker counts as dead.
            fields: the fields of the record to change.

        Returns:
            False if the claim no longer holds; the record is then unchanged.
        """
        args: list[Any] = [claim, ttl_ms, worker_text, *_flatten(fields)]
        return bool(
            self._beat(keys=[self.key(record_id), worker_registry.worker_key(worker), worker_registry.INDEX], args=args)
        )

    def append(self, record_id: str, name: str, text: bytes, *, cap_bytes: int, ttl_s: int) -> None:
        """Appends to a text beside the record (a live log).

        Args:
            name: the name of the text.
            cap_bytes: the maximum size; the rest is dropped.
            ttl_s: the lifetime of the text from now on.
        """
        self._append(keys=[f"{self.key(record_id)}:{name}"], args=[cap_bytes, ttl_s, text])

    def tail(self, record_id: str, name: str, offset: int) -> bytes:
        """Returns a text of a record from this offset on, in bytes; empty if there is no more, or no text."""
        text: bytes = self.client.getrange(f"{self.key(record_id)}:{name}", offset, -1)
        return text

    def active_ids(self) -> list[str]:
        return [_to_text(i) for i in self.client.zrange(self.active_index, 0, -1)]

    def ids_before(self, score: str, count: int) -> list[tuple[str, float]]:
        """Returns the newest first: ids with a score below this one ('+inf', or '(' and a number for exclusive)."""
        scored_ids = self.client.zrevrangebyscore(self.all_index, score, "-inf", start=0, num=count, withscores=True)
        return [(_to_text(i), float(s)) for i, s in scored_ids]

    def delete(self, record_id: str) -> None:
        keys = [self.key(record_id), self.active_index, self.all_index]
        self._delete(keys=keys, args=[record_id, self.group_field])

    def forget(self, record_ids: Iterable[str]) -> None:
        """Removes the ids of expired records from the indexes."""
        gone = list(record_ids)
        if gone:
            self.client.zrem(self.all_index, *gone)
            self.client.zrem(self.active_index, *gone)
            for record_id in gone:
                self.client.hincrby(f"{self.index_prefix}dirty", record_id, 1)

    def _list_changes(
        self,
        record_id: str,
        guards: Mapping[str, Iterable[str]],
        fields: Mapping[str, str],
        message: OutgoingMessage | None,
    ) -> list[Any]:
        head = (record_id, self.group_field, *_list_parts(message), self._database)
        return [*head, len(guards), *guards, *_list_allowed(guards), *_flatten(fields)]

    def _group_index(self, value: str) -> str:
        return f"{self.active_index}:{value}"


def _list_parts(message: OutgoingMessage | None) -> tuple[Any, ...]:
    if message is None:
        return ("",) * 5
    return message.database, message.list_key, message.texts_key, message.message_id, message.text


def _list_allowed(guards: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"|{'|'.join(allowed)}|" for allowed in guards.values()]


def _flatten(fields: Mapping[str, str]) -> list[str]:
    return [part for item in fields.items() for part in item]


def _read_texts(fields: Mapping[Any, Any]) -> dict[str, str] | None:
    return {_to_text(k): _to_text(v) for k, v in fields.items()} or None


def _to_text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
