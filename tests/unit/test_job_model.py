from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversion import model
from app.conversion.model import TERMINAL, TRANSITIONS, Event, JobError, JobRecord, Stage, StageState, Status
from app.conversion.options import Options

NOW = "2026-11-20T20:43:02.125Z"


def new_job() -> JobRecord:
    return model.submitted(
        "id", now=NOW, owner="ann", name="face", tags=("a",), options=Options(), inputs={}, intake={"model": {}}
    )


def finish(record: JobRecord) -> JobRecord:
    running = model.claimed(record, worker="here/x/0", now=NOW)
    return model.succeeded(
        running, now=NOW, result_key=f"key.{record.stage.step}", artifacts={}, summary={}, versions={}
    )


def test_a_job_goes_through_onnx_bie_and_nef_to_completed() -> None:
    record, seen = new_job(), []
    while not record.is_terminal:
        seen.append(record.status.value)
        record = finish(record)
    assert seen == ["ONNX", "BIE", "NEF"]
    assert record.status is Status.COMPLETED
    assert record.progress == 100
    assert record.output == {"onnx_key": "key.onnx", "bie_key": "key.bie", "nef_key": "key.nef"}


def test_only_completed_and_failed_are_terminal() -> None:
    assert TERMINAL == {Status.COMPLETED, Status.FAILED}


def test_a_stage_is_claimed_only_once() -> None:
    running = model.claimed(new_job(), worker="here/onnx/0", now=NOW)
    assert not model.can(running, Event.CLAIM, "onnx")


def test_a_done_message_of_another_step_is_refused() -> None:
    running = model.claimed(finish(new_job()), worker="here/bie/0", now=NOW)
    assert model.can(running, Event.SUCCEED, "bie")
    assert not model.can(running, Event.SUCCEED, "onnx")
    assert not model.can(running, Event.FAIL, "nef")


def test_a_stage_that_nobody_claimed_cannot_succeed() -> None:
    assert not model.can(new_job(), Event.SUCCEED, "onnx")


@pytest.mark.parametrize("event", list(Event))
def test_nothing_happens_to_a_job_that_has_ended(event: Event) -> None:
    failed = model.failed(new_job(), now=NOW, error=JobError("onnx", "why"))
    assert not any(model.can(failed, event, stage.step) for stage in Stage)


def test_a_cancelled_job_is_failed_with_the_reason_cancelled() -> None:
    record = model.cancelled(new_job(), now=NOW)
    assert (record.status, record.error.reason if record.error else None) == (Status.FAILED, "CANCELLED")


def test_a_claim_ends_with_its_stage() -> None:
    running = model.claimed(new_job(), worker="here/onnx/0", now=NOW)
    assert running.claim
    assert not model.failed(running, now=NOW, error=JobError("onnx", "why")).claim


@given(st.lists(st.sampled_from([(e, s) for e in Event for s in Stage]), max_size=20))
def test_whatever_events_come_the_record_stays_in_the_table(events: list[tuple[Event, Stage]]) -> None:
    record = new_job()
    moves = {
        Event.CLAIM: lambda r: model.claimed(r, worker="w", now=NOW),
        Event.SUCCEED: lambda r: model.succeeded(r, now=NOW, result_key="k", artifacts={}, summary={}, versions={}),
        Event.FAIL: lambda r: model.failed(r, now=NOW, error=JobError("s", "why")),
        Event.CANCEL: lambda r: model.cancelled(r, now=NOW),
    }
    for event, stage in events:
        if not model.can(record, event, stage.step):
            continue
        before, record = record, moves[event](record)
        key = (before.status, before.current.state, event)
        assert record.status is TRANSITIONS[key][0]
        assert record.progress >= before.progress
        if not record.is_terminal:
            assert record.current.state in {StageState.QUEUED, StageState.RUNNING}


def test_a_record_survives_its_way_through_redis_fields() -> None:
    running = model.claimed(finish(new_job()), worker="here/bie/0", now=NOW)
    failed = model.failed(running, now=NOW, error=JobError("bie", "why", detail={"a": [1]}))
    for record in (new_job(), running, failed):
        fields = {**model.to_fields(record), "version": str(record.version)}
        assert model.from_fields(fields) == record


def test_only_what_changed_is_written() -> None:
    before = new_job()
    changed = model.to_fields(replace(before, name="other"), unlike=before)
    assert set(changed) == {"name", "progress"}


def test_live_progress_counts_only_for_the_claim_that_reported_it() -> None:
    running = model.claimed(new_job(), worker="here/onnx/0", now=NOW)
    fields = {**model.to_fields(running), "version": "2"}
    live = model.live_fields(running, running.claim, 60, "checking", NOW)
    assert model.from_fields({**fields, **live}).current.progress == 60
    assert model.from_fields({**fields, **live}).progress == 20
    assert live["progress"] == "20"
    stale = {**live, "live_claim": "somebody else"}
    assert model.from_fields({**fields, **stale}).current.progress == 0


def test_the_record_as_json_has_the_requirements_fields() -> None:
    shown = json.loads(json.dumps(model.to_json(new_job())))
    required = {"job_id", "created_at", "status", "stage", "progress", "updated_at", "output", "error"}
    assert required <= set(shown)
    assert {"bie_key", "nef_key"} <= set(shown["output"])
