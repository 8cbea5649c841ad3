from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.conversion import model
from app.conversion.model import (
    TERMINAL,
    TRANSITIONS,
    Artifact,
    Change,
    Event,
    JobError,
    JobRecord,
    Stage,
    StageState,
    Status,
)
from app.conversion.options import Options

NOW = "2026-11-20T20:43:02.125Z"


def new_job() -> JobRecord:
    inputs = {"model.onnx": Artifact("jobs/id/input/model.onnx", 10, "abc")}
    return model.submitted(
        "id",
        now=NOW,
        owner="ann",
        name="face",
        tags=("a",),
        options=Options(),
        inputs=inputs,
        intake={"model": {}},
        origin="task:its-own",
    )


def change(event: Event, stage: Stage) -> Change:
    if event is Event.CLAIM:
        return model.claimed(stage, worker=f"here/{stage.step}/0")
    if event is Event.SUCCEED:
        output: dict[str, str | None] = {f"{stage.step}_key": "key"}
        return model.succeeded(
            stage,
            now=NOW,
            times={"started_at": NOW, "finished_at": NOW},
            output=output,
            artifacts={},
            summary={"n": 1},
            versions={},
        )
    if event is Event.GIVE_BACK:
        return model.given_back(stage, claim=f"here/{stage.step}/0#{stage.step}#")
    if event is Event.FAIL:
        return model.failed(stage, now=NOW, error=JobError(stage.step, "why", detail={"a": [1]}))
    return model.cancelled(stage, now=NOW)


def apply(record: JobRecord, change: Change) -> JobRecord | None:
    """What the store does, without Redis."""
    if record.status.value != change.status.value or record.stages[change.stage.step].state not in change.states:
        return None
    return model.from_fields({**model.to_fields(record), **change.fields})


def after(*events: tuple[Event, Stage]) -> JobRecord:
    record = new_job()
    for event, stage in events:
        next_record = apply(record, change(event, stage))
        assert next_record is not None
        record = next_record
    return record


ALL_THE_WAY = [(event, stage) for stage in Stage for event in (Event.CLAIM, Event.SUCCEED)]


def test_a_job_goes_through_onnx_bie_and_nef_to_completed() -> None:
    seen = [after(*ALL_THE_WAY[:n]).status.value for n in range(7)]
    assert seen == ["ONNX", "ONNX", "BIE", "BIE", "NEF", "NEF", "COMPLETED"]
    ended = after(*ALL_THE_WAY)
    assert ended.progress == 100
    assert ended.finished_at == NOW
    assert ended.output["nef_key"] == "key"
    assert all(stage.state is StageState.DONE for stage in ended.stages.values())


def test_only_completed_and_failed_are_terminal() -> None:
    assert {Status.COMPLETED, Status.FAILED} == TERMINAL


def test_a_stage_is_claimed_only_once() -> None:
    assert apply(after((Event.CLAIM, Stage.ONNX)), change(Event.CLAIM, Stage.ONNX)) is None


@pytest.mark.parametrize("stage", [Stage.ONNX, Stage.NEF])
@pytest.mark.parametrize("event", list(Event))
def test_an_event_of_another_step_is_refused(event: Event, stage: Stage) -> None:
    assert apply(after(*ALL_THE_WAY[:3]), change(event, stage)) is None


def test_a_stage_that_was_given_back_can_be_claimed_again() -> None:
    given_back = after((Event.CLAIM, Stage.ONNX), (Event.GIVE_BACK, Stage.ONNX))
    assert (given_back.current.state, given_back.current.worker) == (StageState.QUEUED, None)
    assert apply(given_back, change(Event.CLAIM, Stage.ONNX))


def test_a_stage_that_nobody_claimed_cannot_succeed() -> None:
    assert apply(new_job(), change(Event.SUCCEED, Stage.ONNX)) is None


@pytest.mark.parametrize("event", list(Event))
@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("end", [ALL_THE_WAY, [(Event.FAIL, Stage.ONNX)], [(Event.CANCEL, Stage.ONNX)]])
def test_nothing_happens_to_a_job_that_has_ended(end: list[tuple[Event, Stage]], event: Event, stage: Stage) -> None:
    assert apply(after(*end), change(event, stage)) is None


def test_a_cancelled_job_is_failed_with_the_reason_cancelled() -> None:
    record = after((Event.CLAIM, Stage.ONNX), (Event.CANCEL, Stage.ONNX))
    assert (record.status, record.error.reason if record.error else None) == (Status.FAILED, "CANCELLED")
    assert record.current.state is StageState.FAILED


def test_a_claim_ends_with_its_stage() -> None:
    assert after((Event.CLAIM, Stage.ONNX)).claim
    for event in (Event.SUCCEED, Event.FAIL, Event.CANCEL, Event.GIVE_BACK):
        assert not after((Event.CLAIM, Stage.ONNX), (event, Stage.ONNX)).claim


def test_whatever_event_comes_in_whatever_state_the_record_stays_in_the_table() -> None:
    """Every state that can be reached, and in each every event of every stage."""
    waiting, seen = [new_job()], set[object]()
    while waiting:
        record = waiting.pop()
        state = (record.status, tuple(run.state for run in record.stages.values()), bool(record.claim))
        if state in seen:
            continue
        seen.add(state)
        for event, stage in ((event, stage) for event in Event for stage in Stage):
            key = (record.status, record.current.state, event)
            is_about_its_stage = stage is record.stage and not record.is_terminal
            next_record = apply(record, change(event, stage))
            assert (next_record is not None) == (is_about_its_stage and key in TRANSITIONS)
            if next_record is not None:
                assert next_record.status is TRANSITIONS[key][0]
                assert next_record.progress >= record.progress
                waiting.append(next_record)
    assert {status for status, *_ in seen} == set(Status)


def test_a_record_survives_its_way_through_redis_fields() -> None:
    for record in (new_job(), after(*ALL_THE_WAY[:3]), after(*ALL_THE_WAY), after((Event.FAIL, Stage.ONNX))):
        assert model.from_fields(model.to_fields(record)) == record


def test_a_record_that_was_kept_before_origins_were_has_none() -> None:
    fields = model.to_fields(new_job())
    del fields["origin"]
    assert model.from_fields(fields) == replace(new_job(), origin="")


def test_a_job_of_a_sweep_also_says_where_its_model_came_from() -> None:
    record = replace(new_job(), origin="hf://org/detector", sweep_id="nightly")
    assert model.from_fields(model.to_fields(record)) == record
    former = {**model.to_fields(new_job()), "origin": "sweep:nightly"}
    assert model.from_fields(former) == replace(new_job(), origin="", sweep_id="nightly")


def test_progress_over_the_job_counts_the_stages_alike() -> None:
    live = model.live_fields(Stage.BIE, 60, "calibrating", started_at=NOW, now=NOW)
    record = model.from_fields({**model.to_fields(after(*ALL_THE_WAY[:3])), **live})
    assert record.current.progress == 60
    assert record.current.message == "calibrating"
    assert record.progress == 53 == int(live["progress"])


def test_the_record_as_json_has_the_requirements_fields() -> None:
    shown = json.loads(json.dumps(model.to_json(new_job())))
    required = {"job_id", "created_at", "status", "stage", "progress", "updated_at", "output", "error"}
    assert required <= set(shown)
    assert {"bie_key", "nef_key"} <= set(shown["output"])
    assert shown["origin"] == "task:its-own"
