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
from app.conversion.service.end_message import take_back_stale
from app.kit.clock import to_text
from app.kit.process.slots import InFlight
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import make_broker

LONG_AGO = to_text(datetime(2020, 1, 1, tzinfo=UTC))


def submit(container: Container) -> JobRecord:
    record = model.submitted(
        str(uuid4()), now=LONG_AGO, owner="local", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    container.store.create(record, score=1.0)
    container.conversion.dispatch.enqueue(Stage.ONNX, record.job_id)
    return record


def claim(container: Container, job_id: str, step: str = "onnx") -> JobRecord:
    container.broker.do_fetch(step, 1)
    record = container.store.claim(job_id, model.claimed(Stage.ONNX, worker=f"here/{step}/0"))
    assert record is not None
    return record


def done(container: Container, job_id: str, step: str = "onnx", result: str = "ok", reason: str | None = None) -> None:
    container.conversion.dispatch.advance(job_id=job_id, step=step, result=result, reason=reason, facts=None)


def sent_done(container: Container) -> list[dict[str, object]]:
    raw = container.broker.client.hvals("queue:done.msgs")
    return [json.loads(message)["kwargs"] for message in raw]


def test_the_done_message_has_the_requirements_fields(container: Container) -> None:
    container.conversion.dispatch.send_done(job_id="x", step="bie", result="fail", reason="why")
    assert {"job_id": "x", "step": "bie", "result": "fail", "reason": "why"}.items() <= sent_done(container)[0].items()


def test_the_queues_hold_job_ids_under_the_requirements_names(container: Container) -> None:
    record = submit(container)
    assert container.broker.client.lrange("queue:onnx", 0, -1) == [record.job_id.encode()]


def test_what_tells_of_ended_jobs_does_not_outlast_their_records_where_nobody_listens(container: Container) -> None:
    gone, kept = submit(container), submit(container)
    for record in (gone, kept):
        claim(container, record.job_id)
        done(container, record.job_id, result="fail", reason="it broke")
    container.store.delete(gone.job_id)
    assert take_back_stale(container.broker, container.store) == 1
    assert container.broker.oldest("notifications", 10) == [f"ended:{kept.job_id}"]


def test_a_bare_done_message_queues_the_next_stage(container: Container) -> None:
    record = submit(container)
    claim(container, record.job_id)
    done(container, record.job_id)
    after = container.store.require(record.job_id)
    assert (after.status, after.current.state) == (Status.BIE, StageState.QUEUED)
    assert after.output["onnx_key"] == f"jobs/{record.job_id}/output/result.onnx"
    assert container.broker.waiting("bie") == 1


def test_a_doubled_done_message_queues_the_next_stage_once(container: Container) -> None:
    record = submit(container)
    claim(container, record.job_id)
    done(container, record.job_id)
    done(container, record.job_id)
    assert container.broker.waiting("bie") == 1


def test_a_failed_step_fails_the_job_with_its_reason(container: Container) -> None:
    record = submit(container)
    claim(container, record.job_id)
    done(container, record.job_id, result="fail", reason="it broke")
    after = container.store.require(record.job_id)
    assert after.status is Status.FAILED
    assert after.error
    assert (after.error.step, after.error.reason) == ("onnx", "it broke")


@pytest.mark.parametrize("result", ["ok", "fail"])
def test_a_stage_began_and_ended_when_its_worker_says_so(container: Container, result: str) -> None:
    """Also if it ended before its first sign of life."""
    record = submit(container)
    claim(container, record.job_id)
    facts = {"started_at": LONG_AGO, "finished_at": "2020-01-01T00:00:05.000Z"}
    container.conversion.dispatch.advance(job_id=record.job_id, step="onnx", result=result, reason=None, facts=facts)
    stage = container.store.require(record.job_id).stages["onnx"]
    assert (stage.started_at, stage.finished_at) == (LONG_AGO, "2020-01-01T00:00:05.000Z")


def test_a_done_message_for_a_forgotten_job_does_nothing(container: Container) -> None:
    done(container, str(uuid4()))
    assert container.broker.waiting("bie") == 0


def test_a_done_message_that_comes_after_a_cancel_does_nothing(container: Container) -> None:
    record = submit(container)
    claim(container, record.job_id)
    container.conversion.jobs.cancel(record.job_id, "local")
    done(container, record.job_id)
    assert container.store.require(record.job_id).status is Status.FAILED
    assert container.broker.waiting("bie") == 0


def test_the_next_stage_is_noted_and_queued_in_one_step(container: Container) -> None:
    """So that no scheduler can die between the two."""
    record = submit(container)
    claim(container, record.job_id)
    done(container, str(uuid4()))  # the script is known to the server now
    container.redis.config_resetstat()
    done(container, record.job_id)
    assert container.redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    assert container.broker.waiting("bie") == 1


def test_the_job_of_a_dead_worker_is_reported_lost(container: Container) -> None:
    record = claim(container, submit(container).job_id)
    container.conversion.dispatch.lost(InFlight("broker", record.job_id, record.claim))
    message = sent_done(container)[0]
    assert (message["result"], message["reason"]) == ("fail", "worker lost")


@pytest.mark.parametrize("claim_text", ["", "another claim"])
def test_a_job_that_went_on_after_its_worker_died_is_left_alone(container: Container, claim_text: str) -> None:
    record = claim(container, submit(container).job_id)
    container.conversion.dispatch.lost(InFlight("broker", record.job_id, claim_text))
    assert sent_done(container) == []


def test_the_sweep_fails_a_job_whose_host_never_came_back(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.conversion.service.dispatch.SUSPECT_S", 0)
    claim(container, submit(container).job_id)
    container.conversion.dispatch.sweep()
    assert sent_done(container) == []  # a first look is no proof
    container.conversion.dispatch.sweep()
    assert [m["reason"] for m in sent_done(container)] == ["worker lost"]


def test_the_sweep_leaves_a_job_whose_worker_lives(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.conversion.service.dispatch.SUSPECT_S", 0)
    record = claim(container, submit(container).job_id)
    container.store.announce("here/onnx/0", json.dumps({"job_id": record.job_id}), 3600)
    for _ in range(3):
        container.conversion.dispatch.sweep()
    assert sent_done(container) == []


def test_the_sweep_queues_what_it_finds_on_no_queue_twice_within_a_while(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = submit(container)
    container.broker.take_back("onnx", record.job_id)
    for _ in range(2):
        container.conversion.dispatch.sweep()
        assert container.broker.waiting("onnx") == 0
    monkeypatch.setattr(dispatch, "UNDELIVERED_S", 0)
    container.conversion.dispatch.sweep()
    assert container.broker.waiting("onnx") == 1
    container.conversion.dispatch.sweep()
    assert container.broker.waiting("onnx") == 1


def test_the_folder_of_a_job_is_a_dead_workers_until_the_job_goes_on_without_it(container: Container) -> None:
    dispatch = container.conversion.dispatch
    record = claim(container, submit(container).job_id)
    begun = InFlight("broker", record.job_id, record.claim, "/work")
    assert not dispatch.has_gone_on(begun)
    done(container, record.job_id)
    assert dispatch.has_gone_on(begun), "it is queued for the next stage, whose worker may begin at any moment"
    container.conversion.jobs.cancel(record.job_id, "local")
    assert not dispatch.has_gone_on(begun)
    assert not dispatch.has_gone_on(InFlight("broker", "forgotten", "a claim", "/work"))


def test_what_a_dead_worker_had_fetched_and_not_begun_is_queued_again(container: Container) -> None:
    record = submit(container)
    dead = make_broker(container.settings.queues)
    dead.do_fetch("onnx", 1)
    dead.close()
    container.conversion.dispatch.requeue_from(InFlight(dead.broker_id), ["onnx"])
    assert container.broker.position("onnx", record.job_id) == 0


def test_a_job_that_a_dead_worker_had_claimed_and_not_begun_is_anybodys_again(container: Container) -> None:
    dead = make_broker(container.settings.queues)
    record = fetched_by(dead, container)
    dead.close()
    container.conversion.dispatch.requeue_from(InFlight(dead.broker_id, next_claim=record.claim), ["onnx"])
    assert container.broker.position("onnx", record.job_id) == 0
    again = container.store.require(record.job_id)
    assert (again.current.state, again.claim) == (StageState.QUEUED, "")


def test_a_job_that_a_dead_worker_had_begun_is_not_given_back(container: Container) -> None:
    dead = make_broker(container.settings.queues)
    record = fetched_by(dead, container)
    dead.close()
    begun = InFlight(dead.broker_id, record.job_id, record.claim, next_claim="new")
    container.conversion.dispatch.requeue_from(begun, ["onnx"])
    assert container.store.require(record.job_id).current.state is StageState.RUNNING


def test_a_job_that_somebody_else_has_claimed_meanwhile_is_not_given_back(container: Container) -> None:
    dead = make_broker(container.settings.queues)
    record = fetched_by(dead, container)
    dead.close()
    container.conversion.dispatch.requeue_from(InFlight(dead.broker_id, next_claim="an older claim"), ["onnx"])
    assert container.store.require(record.job_id).claim == record.claim


def fetched_by(worker: BlockingBroker, container: Container) -> JobRecord:
    record = submit(container)
    worker.do_fetch("onnx", 1)
    claimed = container.store.claim(record.job_id, model.claimed(Stage.ONNX, worker="here/onnx/0", token="t"))
    assert claimed
    return claimed
