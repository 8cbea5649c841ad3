from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.conversion import model
from app.conversion.model import JobRecord, Stage
from app.conversion.options import Options
from app.conversion.stages import heartbeat
from app.conversion.stages.heartbeat import Heartbeat, StageLog
from app.conversion.store import JobStore
from app.kit.clock import to_text
from tests.harness.until import PATIENCE_S, until
from tests.harness.valkey import Valkey

NOW = to_text(datetime(2026, 11, 20, tzinfo=UTC))


# --- the log ----------------------------------------------------------------------------------------
def test_a_log_within_its_limit_is_kept_whole(tmp_path: Path) -> None:
    with StageLog(tmp_path / "log", 10, 10) as log:
        log.write(b"01234")
        log.write(b"56789")
    assert (tmp_path / "log").read_bytes() == b"0123456789"


def test_what_exceeds_the_limit_is_dropped_and_counted_in_a_note(tmp_path: Path) -> None:
    with StageLog(tmp_path / "log", 8, 8) as log:
        log.write(b"01234")
        log.write(b"56789")
        log.write(b"abc")
    kept, note = (tmp_path / "log").read_text().split("\n", 1)
    assert kept == "01234567"
    assert note == "[log limit of 8 bytes reached: 5 more bytes were dropped]\n"


def test_each_drain_hands_on_what_was_kept_since_the_last(tmp_path: Path) -> None:
    with StageLog(tmp_path / "log", 8, 8) as log:
        assert log.drain() == b""
        log.write(b"012")
        log.write(b"345")
        assert log.drain() == b"012345"
        log.write(b"6789")
        assert log.drain() == b"67"
        assert log.drain() == b""


def test_a_log_is_on_disk_before_the_stage_has_ended(tmp_path: Path) -> None:
    with StageLog(tmp_path / "log", 8, 8) as log:
        log.write(b"012")
        assert (tmp_path / "log").read_bytes() == b"012"


# --- the heartbeat ----------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.02)


def store_with(valkey: Valkey, patience_s: float) -> JobStore:
    client = redis.Redis(port=valkey.port, socket_timeout=patience_s, retry=Retry(NoBackoff(), 0))
    return JobStore(client, record_ttl_s=60, live_log_bytes=1000)


@pytest.fixture
def store(own_valkey: Valkey) -> Iterator[JobStore]:
    made = store_with(own_valkey, PATIENCE_S)
    yield made
    made.client.close()


@pytest.fixture
def beating(store: JobStore) -> Iterator[Heartbeat]:
    made = Heartbeat(store, worker="here/onnx/0", text=lambda job_id: f'{{"job_id": "{job_id}"}}', ttl_s=20)
    made.start()
    yield made
    made.stop()


def claimed(store: JobStore) -> JobRecord:
    submitted = model.submitted(
        "job-1", now=NOW, owner="ann", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    store.create(submitted, score=1.0)
    record = store.claim("job-1", model.claimed(Stage.ONNX, worker="here/onnx/0", token="t"))
    assert record is not None
    return record


def test_an_idle_worker_gives_a_sign_of_life(store: JobStore, beating: Heartbeat) -> None:
    until(lambda: store.workers() == {"here/onnx/0": {"job_id": "None"}}, what="the worker is listed")


def test_a_worker_that_stops_is_no_longer_listed(store: JobStore, beating: Heartbeat) -> None:
    until(store.workers, what="the worker is listed")
    beating.stop()
    assert store.workers() == {}


def test_progress_and_log_of_a_stage_are_told_while_it_runs(
    store: JobStore, beating: Heartbeat, tmp_path: Path
) -> None:
    record = claimed(store)
    with beating.during(record, started_at=NOW) as running, StageLog(tmp_path / "log", 100, 100) as log:
        running.log = log
        log.write(b"a line")
        running.report(0.5, "half")
        until(lambda: store.require("job-1").current.progress == 50, what="it is told")
        until(lambda: store.log_tail("job-1", "onnx", 0) == b"a line", what="the log is told")
        assert store.workers()["here/onnx/0"] == {"job_id": "job-1"}
        assert not running.lost


def test_the_first_sign_of_life_tells_when_the_stage_began(store: JobStore, beating: Heartbeat) -> None:
    record = claimed(store)
    assert record.current.started_at is None
    with beating.during(record, started_at=NOW):
        until(lambda: store.require("job-1").current.started_at == NOW, what="the begin is told")


def test_a_sleeping_thread_wakes_for_a_stage_and_for_the_end(
    store: JobStore, beating: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "AWAKE_S", 0.0)
    record = claimed(store)
    for percent in (10, 20):
        until(lambda: store.workers() == {"here/onnx/0": {"job_id": "None"}}, what="it is idle")
        until(lambda: not beating._awake.is_set(), what="it sleeps")
        with beating.during(record, started_at=NOW) as running:
            running.report(percent / 100, "")
            until(
                lambda percent=percent: store.require("job-1").current.progress == percent, what="the progress is told"
            )  # type: ignore[misc]
    until(lambda: not beating._awake.is_set(), what="it sleeps")
    beating.stop()
    assert store.workers() == {}


def test_a_stage_that_ends_before_the_thread_sees_it_keeps_it_awake_for_the_next(
    store: JobStore, beating: Heartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "AWAKE_S", PATIENCE_S)
    until(lambda: not beating._awake.is_set(), what="it sleeps")
    pauses, pause = list[bool](), beating._pause
    with beating.during(claimed(store), started_at=NOW):
        pass
    monkeypatch.setattr(
        beating, "_pause", lambda seconds, *, is_awake: pauses.append(is_awake) or pause(seconds, is_awake=is_awake)
    )
    until(lambda: len(pauses) >= 3)
    assert all(pauses)


def test_a_stage_is_lost_when_its_job_was_cancelled(store: JobStore, beating: Heartbeat) -> None:
    with beating.during(claimed(store), started_at=NOW) as running:
        until(store.workers, what="a beat was heard")
        assert not running.lost
        store.apply("job-1", model.cancelled(Stage.ONNX, now=NOW))
        until(lambda: running.lost, what="the stage is lost")


def test_a_stage_is_lost_when_redis_has_forgotten_its_job(
    store: JobStore, beating: Heartbeat, own_valkey: Valkey
) -> None:
    with beating.during(claimed(store), started_at=NOW) as running:
        own_valkey.kill()
        own_valkey.start()
        until(lambda: running.lost, what="the stage is lost")


def test_a_stage_is_not_lost_while_redis_is_away(
    store: JobStore, beating: Heartbeat, own_valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    beating.store = store_with(own_valkey, 1.0)
    with beating.during(claimed(store), started_at=NOW) as running:
        until(lambda: store.workers().get("here/onnx/0") == {"job_id": "job-1"}, what="the impatient store is in use")
        with own_valkey.stalled():
            until(lambda: "No sign of life" in caplog.text, what="a beat failed")
            assert not running.lost
        running.report(0.7, "back")
        until(lambda: store.require("job-1").current.progress == 70, what="the beats go on")
        assert not running.lost


def test_after_a_stage_the_beats_are_no_longer_about_it(store: JobStore, beating: Heartbeat) -> None:
    record = claimed(store)
    with beating.during(record, started_at=NOW) as running:
        until(lambda: store.workers().get("here/onnx/0") == {"job_id": "job-1"}, what="a beat was heard")
    running.report(0.9, "too late")
    until(lambda: store.workers().get("here/onnx/0") == {"job_id": "None"}, what="the worker is idle again")
    assert store.require("job-1").current.progress == 0
