"""The events of a job, as changes that the store can apply in one step without reading the record first."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cache

from app.conversion.model.fields import artifact_fields, from_fields, reuse_fields, to_fields
from app.conversion.model.record import (
    OUTPUT_KEYS,
    STEPS,
    TERMINAL,
    TRANSITIONS,
    Artifact,
    Event,
    JobError,
    JobRecord,
    Stage,
    StageState,
    Status,
)
from app.kit.text import json_codec
from app.kit.text.json_values import JsonObject

STATUS_OF = {stage: Status(stage.value) for stage in Stage}
"""The status of a job in this stage."""


@dataclass(frozen=True)
class Change:
    """One event as the store applies it: the required state of the job, and its new fields.

    A change is complete without reading the record first, so it is applied in one step; the table decides whether it
    may be applied, through `status` and `states`.
    """

    stage: Stage
    states: tuple[StageState, ...]
    fields: dict[str, str]
    is_end: bool
    claim: str | None = None
    """The required owner of the job; None: any."""

    @property
    def status(self) -> Status:
        return STATUS_OF[self.stage]


def claimed(stage: Stage, *, worker: str, token: str = "") -> Change:
    """A worker claims the stage.

    It has no time, because it is prepared before there is a job to claim; the worker adds it later (live_fields).

    Args:
        token: Distinguishes this claim from every other, also from one of an earlier worker with the same name.
    """
    return _make_change(stage, Event.CLAIM, "", {"worker": worker}, {"claim": f"{worker}#{stage.step}#{token}"})


def given_back(stage: Stage, *, claim: str) -> Change:
    """The claimed work has not started, and another worker may do it."""
    return replace(_make_change(stage, Event.GIVE_BACK, "", {"worker": ""}, {}), claim=claim)


def succeeded(
    stage: Stage,
    *,
    now: str,
    times: dict[str, str],
    output: dict[str, str | None],
    artifacts: dict[str, Artifact],
    summary: JsonObject,
    versions: dict[str, str],
    reused_from: str | None = None,
    saved_s: float | None = None,
) -> Change:
    """A stage has produced its output, or reused an existing one.

    Args:
        now: When the scheduler received the report.
        times: started_at and finished_at by the worker's own clock.
        output: The keys of all stages so far.
        reused_from: The job that produced it.
        saved_s: How long that took.
    """
    own = {
        "progress": "100",
        "message": "",
        "finished_at": now,
        **times,
        "summary": json.dumps(summary) if summary else "",
        "versions": json.dumps(versions) if versions else "",
        **reuse_fields(reused_from, saved_s),
    }
    whole = (stage.place + 1) * 100 // len(STEPS)
    output_text = json_codec.encode({**dict.fromkeys(OUTPUT_KEYS), **output}).decode()
    return _make_change(stage, Event.SUCCEED, now, own, {"progress": str(whole), "output": output_text}, artifacts)


def failed(
    stage: Stage,
    *,
    now: str,
    error: JobError,
    artifacts: dict[str, Artifact] | None = None,
    times: dict[str, str] | None = None,
) -> Change:
    """A stage has ended without its output.

    Args:
        times: As in succeeded, if known.
    """
    own = {"finished_at": now, **(times or {})}
    return _make_change(stage, Event.FAIL, now, own, {"error": json.dumps(asdict(error))}, artifacts)


CANCELLED = "CANCELLED"


def cancelled(stage: Stage, *, now: str) -> Change:
    """The requirement knows five statuses, so a cancelled job is FAILED with the reason CANCELLED."""
    error = JobError(step=stage.step, reason=CANCELLED, code=CANCELLED, hint="Submit it again when you need it.")
    return _make_change(stage, Event.CANCEL, now, {"finished_at": now}, {"error": json.dumps(asdict(error))})


def _make_change(
    stage: Stage,
    event: Event,
    now: str,
    own: dict[str, str],
    whole: dict[str, str],
    artifacts: dict[str, Artifact] | None = None,
) -> Change:
    """Creates the fields of a change.

    Args:
        now: Empty if unknown.
        own: Fields of this stage.
        whole: Fields of the job.
    """
    here, states, status, state = _find_transition(stage, event)
    is_next = status is not here and status not in TERMINAL
    fields = {"claim": "", **whole, "status": status} | ({"updated_at": now} if now else {})
    fields |= {f"{stage.step}.{name}": value for name, value in own.items()}
    fields[f"{stage.step}.state"] = StageState.DONE if is_next else state
    if is_next:
        fields |= {"stage": status, f"{status.lower()}.state": state, f"{status.lower()}.queued_at": now}
    if status in TERMINAL:
        fields["finished_at"] = now
    fields |= artifact_fields(artifacts or {})
    return Change(stage, states, fields, is_end=status in TERMINAL)


@cache
def _find_transition(stage: Stage, event: Event) -> tuple[Status, tuple[StageState, ...], Status, StageState]:
    """Status of a job in this stage; states of the stage in which the event may come; status and state after it."""
    here = STATUS_OF[stage]
    states = tuple(state for status, state, possible in TRANSITIONS if status is here and possible is event)
    return here, states, *TRANSITIONS[here, states[0], event]


def with_artifacts(change: Change, artifacts: dict[str, Artifact]) -> Change:
    """The same, and the job gets these besides."""
    return replace(change, fields={**change.fields, **artifact_fields(artifacts)})


def applied(record: JobRecord, change: Change) -> JobRecord:
    """Returns the record after the change."""
    return from_fields({**to_fields(record), **change.fields})


def live_fields(stage: Stage, progress: int, message: str, *, started_at: str, now: str) -> dict[str, str]:
    """The fields of a running stage between its claim and its end.

    Args:
        progress: 0..100 of this stage.
    """
    whole = (stage.place * 100 + progress) // len(Stage)
    return {
        f"{stage.step}.started_at": started_at,
        f"{stage.step}.progress": str(progress),
        f"{stage.step}.message": message,
        "progress": str(whole),
        "updated_at": now,
    }
