from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.model import JobError, JobRecord, Stage, StageState
from app.conversion.options import Chip, Options, ToolchainName
from app.conversion.store import JobFilter, JobStore, ProgressReport
from app.kit.clock import to_text
from app.kit.redis.connections import Command, RedisConnection

NOW = to_text(datetime(2026, 11, 20, tzinfo=UTC))


def add(store: JobStore, number: int, **fields: object) -> JobRecord:
    record = model.submitted(
        f"job-{number}",
        now=NOW,
        owner=str(fields.get("owner", "ann")),
        name=str(fields.get("name", "")),
        tags=(),
        options=fields.get("options", Options()),
        inputs={},
        intake={},
    )
    store.create(record, score=float(number))
    return record


def claim(store: JobStore, job_id: str, worker: str = "w") -> JobRecord | None:
    return store.claim(job_id, model.claimed(Stage.ONNX, worker=worker))


def beat(progress: int, *, is_news: bool = True) -> ProgressReport:
    return ProgressReport("w", "{}", 20, progress, "half", NOW, NOW, is_news)


def test_of_many_workers_one_gets_the_claim(container: Container) -> None:
    add(container.store, 1)
    got: list[JobRecord | None] = []
    threads = [
        threading.Thread(target=lambda n=n: got.append(claim(container.store, "job-1", f"w{n}"))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([record for record in got if record]) == 1


def test_a_claim_and_the_record_that_it_brings_are_one_round_trip(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        add(container.store, number)
    assert claim(container.store, "job-1")  # the script is known to the server now
    sent, ask = [], RedisConnection.ask
    monkeypatch.setattr(RedisConnection, "ask", lambda line, commands: sent.append(commands) or ask(line, commands))
    record = claim(container.store, "job-2")
    assert record and (record.claim, record.current.state) == ("w#onnx#", StageState.RUNNING)
    assert len(sent) == 1


def test_a_claim_works_with_the_older_protocol_of_redis_too(container: Container) -> None:
    add(container.store, 1)
    old = redis.Redis.from_url(container.settings.redis_url, protocol=2)
    record = claim(JobStore(old, record_ttl_s=60, live_log_bytes=1000), "job-1")
    old.close()
    assert record == container.store.require("job-1")


def test_a_claim_is_refused_to_who_finds_another_in_its_place(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job was cancelled between the change and the reading of the record, which are two steps."""
    add(container.store, 1)
    ask = RedisConnection.ask

    def cancelled_between(line: RedisConnection, commands: list[Command]) -> list[Any]:
        changed = ask(line, commands[:1])
        if len(commands) > 1:
            container.redis.hset("job:job-1", "claim", "")
        return [*changed, *(ask(line, commands[1:]) if commands[1:] else [])]

    monkeypatch.setattr(RedisConnection, "ask", cancelled_between)
    assert claim(container.store, "job-1") is None


def test_the_record_is_a_hash_under_the_requirements_key(container: Container) -> None:
    add(container.store, 1)
    fields = container.redis.hgetall("job:job-1")
    assert fields[b"status"] == b"ONNX"
    assert {b"job_id", b"created_at", b"stage", b"progress", b"updated_at", b"output", b"error"} <= set(fields)


def test_an_event_for_an_unknown_job_is_refused(container: Container) -> None:
    assert claim(container.store, "job-9") is None


def test_a_finished_record_expires_and_an_active_one_does_not(container: Container) -> None:
    add(container.store, 1)
    assert container.redis.ttl("job:job-1") == -1
    container.store.apply("job-1", model.cancelled(Stage.ONNX, now=NOW))
    assert 0 < container.redis.ttl("job:job-1") <= container.settings.record_ttl_s
    assert list(container.store.active()) == []


def test_progress_is_told_while_the_claim_stands(container: Container) -> None:
    add(container.store, 1)
    record = claim(container.store, "job-1")
    assert record is not None
    assert container.store.beat(record, beat(50))
    assert container.store.require("job-1").current.progress == 50
    assert "w" in container.store.workers()


def test_a_beat_hears_that_the_job_was_cancelled(container: Container) -> None:
    add(container.store, 1)
    record = claim(container.store, "job-1")
    assert record is not None
    container.store.apply("job-1", model.cancelled(Stage.ONNX, now=NOW))
    assert not container.store.beat(record, beat(50))
    assert container.store.require("job-1").current.progress == 0


def test_a_beat_hears_that_redis_has_forgotten_the_job(container: Container) -> None:
    add(container.store, 1)
    record = claim(container.store, "job-1")
    assert record is not None
    container.redis.flushall()
    assert not container.store.beat(record, beat(50))
    assert container.store.get("job-1") is None


def test_every_change_is_announced(container: Container) -> None:
    with container.redis.pubsub() as listener:
        listener.subscribe("nudge:job:job-1")
        add(container.store, 1)
        record = claim(container.store, "job-1")
        assert record is not None
        container.store.beat(record, beat(10))
        container.store.beat(record, beat(10, is_news=False))
        container.store.apply("job-1", model.failed(Stage.ONNX, now=NOW, error=JobError("onnx", "x")))
        messages = [listener.get_message(timeout=60) for _ in range(5)] + [listener.get_message(timeout=1)]
    assert len([m for m in messages if m and m["type"] == "message"]) == 4


def test_pages_are_newest_first_and_survive_new_jobs(container: Container) -> None:
    for number in range(5):
        add(container.store, number)
    first, cursor = container.store.page(JobFilter(), limit=2, cursor=None)
    add(container.store, 9)
    second, cursor = container.store.page(JobFilter(), limit=2, cursor=cursor)
    third, cursor = container.store.page(JobFilter(), limit=2, cursor=cursor)
    assert [r.job_id for r in (*first, *second, *third)] == ["job-4", "job-3", "job-2", "job-1", "job-0"]
    assert cursor is None


def test_filters_narrow_the_list(container: Container) -> None:
    kneron = Options(toolchain=ToolchainName.KNERON, platform=Chip.KL720)
    add(container.store, 1, name="Face detector")
    add(container.store, 2, options=kneron)
    add(container.store, 3, owner="bob")
    container.store.apply("job-3", model.cancelled(Stage.ONNX, now=NOW))

    def found(**fields: str) -> list[str]:
        return [r.job_id for r in container.store.page(JobFilter(**fields), limit=9, cursor=None)[0]]

    assert found(text="face") == ["job-1"]
    assert found(toolchain="kneron") == ["job-2"]
    assert found(platform="720") == ["job-2"]
    assert found(owner="bob") == ["job-3"]
    assert found(status="FAILED") == ["job-3"]
    assert found(status="ONNX") == ["job-2", "job-1"]


def test_an_expired_record_leaves_the_list(container: Container) -> None:
    add(container.store, 1)
    container.redis.delete("job:job-1")
    assert container.store.page(JobFilter(), limit=9, cursor=None) == ([], None)
    assert container.redis.zcard("jobs") == 0


def test_the_live_log_stops_at_its_cap(container: Container) -> None:
    store = JobStore(container.redis, record_ttl_s=60, live_log_bytes=10)
    for portion in (b"1234567", b"89abcdef", b"more"):
        store.log_append("job-1", "onnx", portion)
    assert store.log_tail("job-1", "onnx", 0) == b"123456789a"
    assert store.log_tail("job-1", "onnx", 7) == b"89a"


def test_the_live_log_goes_when_its_stage_ends(container: Container) -> None:
    add(container.store, 1)
    claim(container.store, "job-1")
    container.store.log_append("job-1", "onnx", b"text")
    container.store.apply("job-1", model.cancelled(Stage.ONNX, now=NOW))
    assert container.store.log_tail("job-1", "onnx", 0) == b""


def test_a_suspect_is_sentenced_only_after_a_while(container: Container) -> None:
    assert not container.store.note_lost("job-1", after_s=100)
    assert not container.store.note_lost("job-1", after_s=100)
    assert container.store.note_lost("job-1", after_s=0)
    container.store.clear_lost("job-1")
    assert not container.store.note_lost("job-1", after_s=0)
