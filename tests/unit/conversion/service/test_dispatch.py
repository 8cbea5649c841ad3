from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.model import JobRecord, Stage, StageState, Status
from app.conversion.options import Options
from app.conversion.service import dispatch
from app.kit.clock import to_text
from app.kit.process.slots import InFlight
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import make_broker

LONG_AGO = to_text(datetime(2020, 1, 1, tzinfo=UTC))


def submit(parts: Container) -> JobRecord:
    record = model.submitted(
        str(uuid4()), now=LONG_AGO, owner="local", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    parts.store.create(record, score=1.0)
    parts.conversion.dispatch.enqueue(Stage.ONNX, record.job_id)
    return record


def claim(parts: Container, job_id: str, step: str = "onnx") -> JobRecord:
    parts.broker.do_fetch(step, 1)
    record = parts.store.claim(job_id, model.claimed(Stage.ONNX, worker=f"here/{step}/0"))
    assert record is not None
    return record


def done(parts: Container, job_id: str, step: str = "onnx", result: str = "ok", reason: str | None = None) -> None:
    parts.conversion.dispatch.advance(job_id=job_id, step=step, result=result, reason=reason, facts=None)


def sent_done(parts: Container) -> list[dict[str, object]]:
    raw = parts.broker.client.hvals("queue:done.msgs")
    return [json.loads(message)["kwargs"] for message in raw]


def test_the_done_message_has_the_requirements_fields(parts: Container) -> None:
    parts.conversion.dispatch.send_done(job_id="x", step="bie", result="fail", reason="why")
    assert {"job_id": "x", "step": "bie", "result": "fail", "reason": "why"}.items() <= sent_done(parts)[0].items()


def test_the_queues_hold_job_ids_under_the_requirements_names(parts: Container) -> None:
    record = submit(parts)
    assert parts.broker.client.lrange("queue:onnx", 0, -1) == [record.job_id.encode()]


def test_a_bare_done_message_queues_the_next_stage(parts: Container) -> None:
    record = submit(parts)
    claim(parts, record.job_id)
    done(parts, record.job_id)
    after = parts.store.require(record.job_id)
    assert (after.status, after.current.state) == (Status.BIE, StageState.QUEUED)
    assert after.output["onnx_key"] == f"jobs/{record.job_id}/output/result.onnx"
    assert parts.broker.waiting("bie") == 1


def test_a_doubled_done_message_queues_the_next_stage_once(parts: Container) -> None:
    record = submit(parts)
    claim(parts, record.job_id)
    done(parts, record.job_id)
    done(parts, record.job_id)
    assert parts.broker.waiting("bie") == 1


def test_a_failed_step_fails_the_job_with_its_reason(parts: Container) -> None:
    record = submit(parts)
    claim(parts, record.job_id)
    done(parts, record.job_id, result="fail", reason="it broke")
    after = parts.store.require(record.job_id)
    assert after.status is Status.FAILED
    assert after.error
    assert (after.error.step, after.error.reason) == ("onnx", "it broke")


@pytest.mark.parametrize("result", ["ok", "fail"])
def test_a_stage_began_and_ended_when_its_worker_says_so(parts: Container, result: str) -> None:
    """Also if it ended before its first sign of life."""
    record = submit(parts)
    claim(parts, record.job_id)
    facts = {"started_at": LONG_AGO, "finished_at": "2020-01-01T00:00:05.000Z"}
    parts.conversion.dispatch.advance(job_id=record.job_id, step="onnx", result=result, reason=None, facts=facts)
    stage = parts.store.require(record.job_id).stages["onnx"]
    assert (stage.started_at, stage.finished_at) == (LONG_AGO, "2020-01-01T00:00:05.000Z")


def test_a_done_message_for_a_forgotten_job_does_nothing(parts: Container) -> None:
    done(parts, str(uuid4()))
    assert parts.broker.waiting("bie") == 0


def test_a_done_message_that_comes_after_a_cancel_does_nothing(parts: Container) -> None:
    record = submit(parts)
    claim(parts, record.job_id)
    parts.conversion.jobs.cancel(record.job_id, "local")
    done(parts, record.job_id)
    assert parts.store.require(record.job_id).status is Status.FAILED
    assert parts.broker.waiting("bie") == 0


def test_the_next_stage_is_noted_and_queued_in_one_step(parts: Container) -> None:
    """So that no scheduler can die between the two."""
    record = submit(parts)
    claim(parts, record.job_id)
    done(parts, str(uuid4()))  # the script is known to the server now
    parts.redis.config_resetstat()
    done(parts, record.job_id)
    assert parts.redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    assert parts.broker.waiting("bie") == 1


def test_the_job_of_a_dead_worker_is_reported_lost(parts: Container) -> None:
    record = claim(parts, submit(parts).job_id)
    parts.conversion.dispatch.lost(InFlight("broker", record.job_id, record.claim))
    message = sent_done(parts)[0]
    assert (message["result"], message["reason"]) == ("fail", "worker lost")


@pytest.mark.parametrize("claim_text", ["", "another claim"])
def test_a_job_that_went_on_after_its_worker_died_is_left_alone(parts: Container, claim_text: str) -> None:
    record = claim(parts, submit(parts).job_id)
    parts.conversion.dispatch.lost(InFlight("broker", record.job_id, claim_text))
    assert sent_done(parts) == []


def test_the_sweep_fails_a_job_whose_host_never_came_back(parts: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.conversion.service.dispatch.SUSPECT_S", 0)
    claim(parts, submit(parts).job_id)
    parts.conversion.dispatch.sweep()
    assert sent_done(parts) == []  # a first look is no proof
    parts.conversion.dispatch.sweep()
    assert [m["reason"] for m in sent_done(parts)] == ["worker lost"]


def test_the_sweep_leaves_a_job_whose_worker_lives(parts: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.conversion.service.dispatch.SUSPECT_S", 0)
    record = claim(parts, submit(parts).job_id)
    parts.store.announce("here/onnx/0", json.dumps({"job_id": record.job_id}), 20)
    for _ in range(3):
        parts.conversion.dispatch.sweep()
    assert sent_done(parts) == []


def test_the_sweep_queues_what_it_finds_on_no_queue_twice_within_a_while(
    parts: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = submit(parts)
    parts.broker.take_back("onnx", record.job_id)
    for _ in range(2):
        parts.conversion.dispatch.sweep()
        assert parts.broker.waiting("onnx") == 0
    monkeypatch.setattr(dispatch, "UNDELIVERED_S", 0)
    parts.conversion.dispatch.sweep()
    assert parts.broker.waiting("onnx") == 1
    parts.conversion.dispatch.sweep()
    assert parts.broker.waiting("onnx") == 1


def test_what_a_dead_worker_had_fetched_and_not_begun_is_queued_again(parts: Container) -> None:
    record = submit(parts)
    dead = make_broker(parts.settings.queues)
    dead.do_fetch("onnx", 1)
    dead.close()
    parts.conversion.dispatch.requeue_from(InFlight(dead.broker_id), ["onnx"])
    assert parts.broker.position("onnx", record.job_id) == 0


def test_a_job_that_a_dead_worker_had_claimed_and_not_begun_is_anybodys_again(parts: Container) -> None:
    dead = make_broker(parts.settings.queues)
    record = fetched_by(dead, parts)
    dead.close()
    parts.conversion.dispatch.requeue_from(InFlight(dead.broker_id, claim=record.claim), ["onnx"])
    assert parts.broker.position("onnx", record.job_id) == 0
    again = parts.store.require(record.job_id)
    assert (again.current.state, again.claim) == (StageState.QUEUED, "")


def test_a_job_that_a_dead_worker_had_begun_is_not_given_back(parts: Container) -> None:
    dead = make_broker(parts.settings.queues)
    record = fetched_by(dead, parts)
    dead.close()
    parts.conversion.dispatch.requeue_from(InFlight(dead.broker_id, record.job_id, record.claim), ["onnx"])
    assert parts.store.require(record.job_id).current.state is StageState.RUNNING


def test_a_job_that_somebody_else_has_claimed_meanwhile_is_not_given_back(parts: Container) -> None:
    dead = make_broker(parts.settings.queues)
    record = fetched_by(dead, parts)
    dead.close()
    parts.conversion.dispatch.requeue_from(InFlight(dead.broker_id, claim="an older claim"), ["onnx"])
    assert parts.store.require(record.job_id).claim == record.claim


def fetched_by(worker: BlockingBroker, parts: Container) -> JobRecord:
    record = submit(parts)
    worker.do_fetch("onnx", 1)
    claimed = parts.store.claim(record.job_id, model.claimed(Stage.ONNX, worker="here/onnx/0", token="t"))
    assert claimed
    return claimed
