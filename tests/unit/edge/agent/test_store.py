"""What an agent keeps over restarts."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.edge.agent import report_store
from app.edge.agent.database import RESERVE_BYTES
from app.edge.agent.report_store import DroppedReports
from app.edge.agent.store import AgentStore, WorkerRecord
from app.kit.clock import from_text
from app.nodes.model import Operation, Order, WorkerState, WorkKey

KEY = WorkKey("programs", "u1", "edge")
ORDER = Order(5, "edge0", KEY, "default", "helmet", Operation.INSERT, 1, {"a": 1}, is_acknowledged=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    made = AgentStore(tmp_path / "edge0" / "agent.db", "edge0")
    yield made
    made.close()


def bodies(store: AgentStore) -> list[bytes]:
    stored = list[bytes]()
    while (entry := store.reports.oldest()) is not None:
        stored.append(entry.body)
        store.reports.remove_sent(entry)
    return stored


def test_an_order_comes_back_as_it_was_put(store: AgentStore) -> None:
    assert store.put(ORDER)
    assert store.order(KEY) == ORDER
    assert store.orders() == [ORDER]


@pytest.mark.parametrize("seq", [4, 5])
def test_what_is_not_newer_is_no_news(store: AgentStore, seq: int) -> None:
    store.put(ORDER)
    assert not store.put(replace(ORDER, seq=seq, content={"a": 2}))
    assert store.order(KEY) == ORDER


def test_a_newer_number_with_the_same_content_is_kept_and_changes_nothing(store: AgentStore) -> None:
    store.put(ORDER)
    assert not store.put(replace(ORDER, seq=6))
    known = store.order(KEY)
    assert known is not None and known.seq == 6


def test_an_order_of_this_machine_counts_when_it_says_something_else_and_keeps_the_webs_number(
    store: AgentStore,
) -> None:
    store.put(ORDER)
    assert not store.put(replace(ORDER, seq=0))
    assert store.put(replace(ORDER, seq=0, content={"a": 2}))
    assert store.order(KEY) == replace(ORDER, content={"a": 2})


def test_the_reserve_for_a_full_disk_is_there_again_once_an_order_can_be_stored(
    store: AgentStore, tmp_path: Path
) -> None:
    reserve = tmp_path / "edge0" / "reserve"
    reserve.unlink()
    store.put(ORDER)
    assert reserve.stat().st_size == RESERVE_BYTES


def test_a_delete_of_what_is_not_there_leaves_nothing(store: AgentStore) -> None:
    assert not store.put(replace(ORDER, operation=Operation.DELETE))
    assert store.orders() == []


def test_an_order_that_came_after_its_delete_is_not_forgotten_with_it(store: AgentStore) -> None:
    delete = replace(ORDER, seq=6, operation=Operation.DELETE)
    store.put(ORDER)
    store.save_worker(KEY, WorkerRecord(port=4000))
    store.put(delete)
    store.put(replace(ORDER, seq=7))
    store.forget(delete)
    assert store.worker(KEY).port == 4000 and len(store.orders()) == 1
    store.put(replace(delete, seq=8))
    store.forget(replace(delete, seq=8))
    assert store.worker(KEY) == WorkerRecord() and store.orders() == []


def test_a_worker_is_kept_with_its_port(store: AgentStore) -> None:
    record = WorkerRecord(port=4000, pid=7, identity="boot 1", state=WorkerState.BACKOFF, exit_code=-9, restarts=2)
    store.save_worker(KEY, record)
    assert store.worker(KEY) == record
    assert store.ports() == {4000}


def test_reports_lie_in_order_and_one_word_has_one_report(store: AgentStore) -> None:
    store.reports.push("/a", b"1", "text/plain", "")
    store.reports.push("/s", b"old", "text/plain", "status")
    store.reports.push("/a", b"2", "text/plain", "")
    store.reports.push("/s", b"new", "text/plain", "status")
    assert bodies(store) == [b"1", b"2", b"new"]


def test_the_oldest_reports_go_when_there_are_too_many(
    store: AgentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(report_store, "OUTBOX_MOST", 3)
    assert store.reports.lost == DroppedReports(0, "")
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            store.reports.push("/a", b"%d" % number, "text/plain", "")
    with closing(AgentStore(tmp_path / "edge0" / "agent.db", "edge0")) as restarted:
        assert restarted.reports.lost.count == 2
        assert from_text(restarted.reports.lost.last_at)
    assert bodies(store) == [b"2", b"3", b"4"]
    assert "are lost" in caplog.text


def test_the_oldest_reports_go_when_they_are_too_large_and_the_newest_stays(
    store: AgentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_store, "OUTBOX_BYTES", 10)
    for letter in (b"a", b"b", b"c"):
        store.reports.push("/a", letter * 4, "text/plain", "")
    store_bodies = bodies(store)
    assert store_bodies == [b"bbbb", b"cccc"]
    store.reports.push("/a", b"d" * 100, "text/plain", "")
    assert bodies(store) == [b"d" * 100]


@pytest.mark.parametrize("damage", ["no database", "a broken page", "another version"])
def test_a_file_that_cannot_be_read_is_moved_aside(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "agent.db"
    first = AgentStore(file, "edge0")
    first.remember("token", "t")
    for number in range(200):
        first.put(replace(ORDER, key=WorkKey("programs", f"u{number}", "edge"), content={"text": "x" * 500}))
    first.close()
    if damage == "another version":
        with sqlite3.connect(file) as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
    else:
        data = bytearray(file.read_bytes())
        start = 0 if damage == "no database" else 8192
        data[start : start + 8192] = b"\xa5" * 8192
        file.write_bytes(data)
    second = AgentStore(file, "edge0")
    assert second.was_damaged
    assert second.orders() == [] and second.setting("token") == ""
    second.close()
    assert (tmp_path / "agent.db.damaged").exists()


def test_a_sound_file_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    first = AgentStore(tmp_path / "agent.db", "edge0")
    first.remember("token", "t")
    first.close()
    second = AgentStore(tmp_path / "agent.db", "edge0")
    assert not second.was_damaged and second.setting("token") == "t"
    second.close()


def test_the_file_with_the_token_is_its_owners_alone(store: AgentStore, tmp_path: Path) -> None:
    for file in (tmp_path / "edge0").iterdir():
        assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "edge0").stat().st_mode & 0o077 == 0
