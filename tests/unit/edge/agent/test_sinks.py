"""What an agent queues for its sinks, without a network."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.edge.agent import sink_queue
from app.edge.agent.sinks import NodeSinks
from app.edge.agent.store import AgentStore
from app.nodes.model import Operation, Order, WorkKey
from app.results.model.producer import Producer
from app.results.model.rule import Rule, RuleSet
from app.results.model.sink import NODE_SINKS, PART, SentBy, Sink, SinkContent, SinkKind, SinkOrder

UID = "s1"
PRODUCER = Producer("joint", UID, "", "", "/api/v2/services/a/b", "", "", "", "", {"service": "a/b"}, is_fleet=True)
RULES = RuleSet((), (Rule("come", label="person", cooldown_s=3600.0),))
BOX = {"bbox": [[10.0, 20.0, 30.0, 60.0]], "labels": ["person"], "scores": [0.9], "size": [100, 100]}


def sink(number: int, content: SinkContent = SinkContent.ROWS) -> Sink:
    """Nothing is sent to it: its kind has no sender at nodes."""
    return Sink(f"{number:032x}", UID, SinkKind.FILE, content, "datasets/a", "", "", 0, sent_by=SentBy.NODE)


def order(*sinks: Sink, rules: RuleSet = RULES) -> Order:
    content = SinkOrder(PRODUCER, sinks, rules, is_paused=True).to_json()
    return Order(1, "edge0", WorkKey(NODE_SINKS, UID, PART), "", UID, Operation.INSERT, 0, content)


def body(batch: int, *samples: str, run: str = "r", at: float = 1764400000.0) -> bytes:
    rows = [{"sample": name, "at": at + batch, "source": "door", **BOX} for name in samples]
    return json.dumps({"run": run, "batch": batch, "rows": rows}).encode()


def run(tmp_path: Path, act: Callable[[NodeSinks, AgentStore], Awaitable[None]]) -> None:
    async def within() -> None:
        store = AgentStore(tmp_path / "agent.db", "edge0")
        sinks = NodeSinks(store.sinks, "edge0", (), lambda: None)
        try:
            await act(sinks, store)
        finally:
            sinks.close()
            store.close()

    asyncio.run(within())


def waiting(store: AgentStore, one: Sink) -> Sequence[Any]:
    return [delivery.envelope for delivery in store.sinks.oldest(one.sink_id, 1000)]


def test_rows_of_a_service_are_told_by_their_samples_and_taken_in_once(tmp_path: Path) -> None:
    rows, events = sink(1), sink(2, SinkContent.EVENTS)

    async def act(sinks: NodeSinks, store: AgentStore) -> None:
        sinks.add(UID, body(1, "before"))
        sinks.apply(order(rows, events))
        for batch, names in ((1, ("a", "b")), (1, ("a", "b")), (2, ("c",))):
            sinks.add(UID, body(batch, *names))
        sinks.add(UID, body(1, "d", run="after a restart"))
        envelopes = waiting(store, rows)
        assert [one["id"] for one in envelopes] == ["row/a", "row/b", "row/c", "row/d"]
        assert [one["data"]["frame"] for one in envelopes] == [1, 2, 3, 4]
        assert (envelopes[0]["data"]["node"], envelopes[0]["data"]["source"]) == ("edge0", "door")
        assert [one["id"] for one in waiting(store, events)] == ["event/come/a"]

    run(tmp_path, act)


def test_a_rule_that_is_as_before_keeps_its_cool_down_over_a_restart_and_a_change(tmp_path: Path) -> None:
    events, later = sink(1, SinkContent.EVENTS), RuleSet((), (*RULES.rules, Rule("more", at_least=2)))

    async def begin(sinks: NodeSinks, _: AgentStore) -> None:
        sinks.apply(order(events))
        sinks.add(UID, body(1, "a"))

    async def go_on(sinks: NodeSinks, store: AgentStore) -> None:
        sinks.apply(order(events))
        sinks.apply(order(events, rules=later))
        sinks.add(UID, body(2, "b", at=1764400100.0))
        assert [one["id"] for one in waiting(store, events)] == ["event/come/a"]
        sinks.apply(order(events, rules=RuleSet((), (Rule("come"),))))
        sinks.add(UID, body(3, "c", at=1764400200.0))
        assert [one["id"] for one in waiting(store, events)] == ["event/come/a", "event/come/c"]

    run(tmp_path, begin)
    run(tmp_path, go_on)


def test_the_oldest_are_dropped_and_counted_if_too_many_bytes_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sink(1), sink(2)

    async def act(sinks: NodeSinks, store: AgentStore) -> None:
        sinks.apply(order(one, other))
        sinks.add(UID, body(1, *map(str, range(20))))
        size = sum(len(json.dumps(envelope)) for envelope in waiting(store, one))
        monkeypatch.setattr(sink_queue, "MOST_BYTES", size)
        sinks.apply(order(one))
        sinks.add(UID, body(2, "newest"))
        left = [envelope["id"] for envelope in waiting(store, one)]
        progress = sinks.reports()[one.sink_id]
        assert (progress.queued, progress.lost) == (len(left), 21 - len(left))
        assert left == [*(f"row/{n}" for n in range(progress.lost, 20)), "row/newest"]
        assert 0 < progress.lost < 5
        assert waiting(store, other) == []

    run(tmp_path, act)


def test_a_disk_without_room_takes_nothing_and_the_same_report_comes_again(tmp_path: Path) -> None:
    one = sink(1)

    async def act(sinks: NodeSinks, store: AgentStore) -> None:
        sinks.apply(order(one))
        store._db.execute("PRAGMA query_only = ON")  # fails as a disk without room does
        with pytest.raises(sqlite3.Error):
            sinks.add(UID, body(1, "a"))
        with pytest.raises(sqlite3.Error):
            sinks.apply(order(one, sink(2)))
        store._db.execute("PRAGMA query_only = OFF")
        sinks.add(UID, body(1, "a"))
        sinks.apply(order(one, sink(2)))
        assert [envelope["id"] for envelope in waiting(store, one)] == ["row/a"]
        assert set(sinks.reports()) == {one.sink_id, sink(2).sink_id}

    run(tmp_path, act)


def test_what_cannot_be_read_keeps_nothing_else_from_going_on(tmp_path: Path) -> None:
    one = sink(1)

    async def act(sinks: NodeSinks, store: AgentStore) -> None:
        sinks.apply(order(one))
        for text in (b"[", b"[]", b"{}", b'{"run": "r", "batch": 1, "rows": [5]}', b'{"seq": "x", "results": []}'):
            sinks.add(UID, text)
        sinks.apply(replace(order(one), content={"sinks": 5}))
        sinks.add(UID, body(1, "a"))
        assert [envelope["id"] for envelope in waiting(store, one)] == ["row/a"]

    run(tmp_path, act)
