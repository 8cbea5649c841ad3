"""The job record, its statuses and the one transition table. Pure: no clock, no Redis, no framework."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from app.conversion.options import Options


class Stage(StrEnum):
    """The three steps, in their only order. Values are the requirement's words for `stage` and `status`."""

    ONNX = "ONNX"
    BIE = "BIE"
    NEF = "NEF"

    @property
    def step(self) -> str:
        """The word that the done message, the queues and the logs use."""
        return self.value.lower()

    @property
    def next(self) -> Stage | None:
        following = list(Stage)[list(Stage).index(self) + 1 :]
        return following[0] if following else None


class Status(StrEnum):
    ONNX = "ONNX"
    BIE = "BIE"
    NEF = "NEF"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class StageState(StrEnum):
    WAITING = "WAITING"
    """A stage before has not ended."""
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


class Event(StrEnum):
    CLAIM = "CLAIM"
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    CANCEL = "CANCEL"


def _transitions() -> dict[tuple[Status, StageState, Event], tuple[Status, StageState]]:
    table = {}
    for stage in Stage:
        here = Status(stage.value)
        after = (Status(stage.next.value), StageState.QUEUED) if stage.next else (Status.COMPLETED, StageState.DONE)
        table[here, StageState.QUEUED, Event.CLAIM] = (here, StageState.RUNNING)
        table[here, StageState.RUNNING, Event.SUCCEED] = after
        for state in (StageState.QUEUED, StageState.RUNNING):
            table[here, state, Event.FAIL] = (Status.FAILED, StageState.FAILED)
            table[here, state, Event.CANCEL] = (Status.FAILED, StageState.FAILED)
    return table


TRANSITIONS = _transitions()
"""(status, state of its stage, event) → (status, state of that status's stage). What is not here is refused."""

OUTPUT_KEYS = tuple(f"{stage.step}_key" for stage in Stage)

TERMINAL = frozenset(Status) - {status for status, _, _ in TRANSITIONS}


@dataclass(frozen=True)
class StageRecord:
    """One stage of one job. Times are ISO 8601 in UTC; progress is 0..100; worker names the slot that ran it."""

    state: StageState = StageState.WAITING
    progress: int = 0
    message: str = ""
    queued_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    worker: str | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobError:
    """step: the stage that failed. code: machine-readable cause. hint: what to try. detail: JSON-able facts."""

    step: str
    reason: str
    code: str = "STAGE_FAILED"
    hint: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    key: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class JobRecord:
    """What is known of a job. The first seven fields and `output`, `error` are the requirement's; the rest is extra."""

    job_id: str
    created_at: str
    status: Status
    stage: Stage
    updated_at: str
    options: Options
    output: dict[str, str | None]
    error: JobError | None = None
    owner: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    finished_at: str | None = None
    stages: dict[str, StageRecord] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    intake: dict[str, Any] = field(default_factory=dict)
    """What was found when the job was submitted: facts of the model and of the images, warnings."""
    claim: str = ""
    """Which worker may report on the running stage; empty when none."""

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def current(self) -> StageRecord:
        return self.stages[self.stage.step]

    @property
    def progress(self) -> int:
        """0..100 over the whole job, the three stages counting equally."""
        return sum(record.progress for record in self.stages.values()) // len(Stage)


def submitted(
    job_id: str, *, now: str, owner: str, name: str, tags: tuple[str, ...], options: Options,
    inputs: dict[str, Artifact], intake: dict[str, Any],
) -> JobRecord:  # fmt: skip
    """The record of a new job, its first stage queued."""
    stages = {stage.step: StageRecord() for stage in Stage}
    stages[Stage.ONNX.step] = StageRecord(state=StageState.QUEUED, queued_at=now)
    return JobRecord(
        job_id=job_id, created_at=now, updated_at=now, status=Status.ONNX, stage=Stage.ONNX, owner=owner, name=name,
        tags=tags, options=options, output=dict.fromkeys(OUTPUT_KEYS), stages=stages, artifacts=inputs, intake=intake,
    )  # fmt: skip


# --- changes ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Change:
    """One event as the store applies it: where the job must stand, and which fields it then gets.

    A change is complete without knowing the record before, so it takes one step to apply; whether it may be applied is
    the table's word, carried along in `status` and `states`.
    """

    stage: Stage
    states: tuple[StageState, ...]
    fields: dict[str, str]
    is_end: bool

    @property
    def status(self) -> Status:
        return Status(self.stage.value)


def claimed(stage: Stage, *, worker: str, now: str) -> Change:
    """A job claims each stage at most once, so worker and stage name the claim."""
    own = {"started_at": now, "worker": worker}
    return _change(stage, Event.CLAIM, now, own, {"claim": f"{worker}#{stage.step}"})


def succeeded(
    stage: Stage, *, now: str, finished_at: str, output: dict[str, str | None], artifacts: dict[str, Artifact],
    summary: dict[str, Any], versions: dict[str, str],
) -> Change:  # fmt: skip
    """finished_at: by the worker's own clock; now: when it was heard of. output: the keys of all stages so far."""
    own = {
        "progress": "100", "message": "", "finished_at": finished_at, "summary": json.dumps(summary),
        "versions": json.dumps(versions),
    }  # fmt: skip
    whole = (list(Stage).index(stage) + 1) * 100 // len(Stage)
    output_text = json.dumps({**dict.fromkeys(OUTPUT_KEYS), **output})
    return _change(stage, Event.SUCCEED, now, own, {"progress": str(whole), "output": output_text}, artifacts)


def failed(stage: Stage, *, now: str, error: JobError, artifacts: dict[str, Artifact] | None = None) -> Change:
    return _change(stage, Event.FAIL, now, {"finished_at": now}, {"error": json.dumps(asdict(error))}, artifacts)


CANCELLED = "CANCELLED"


def cancelled(stage: Stage, *, now: str) -> Change:
    """The requirement knows five statuses, so a cancelled job is FAILED with the reason CANCELLED."""
    error = JobError(step=stage.step, reason=CANCELLED, code=CANCELLED, hint="Submit it again when you need it.")
    return _change(stage, Event.CANCEL, now, {"finished_at": now}, {"error": json.dumps(asdict(error))})


def _change(
    stage: Stage, event: Event, now: str, own: dict[str, str], whole: dict[str, str],
    artifacts: dict[str, Artifact] | None = None,
) -> Change:  # fmt: skip
    """own: fields of this stage; whole: fields of the job."""
    here = Status(stage.value)
    states = tuple(state for status, state, known in TRANSITIONS if status is here and known is event)
    status, state = TRANSITIONS[here, states[0], event]
    is_next = status is not here and status not in TERMINAL
    fields = {"claim": "", **whole, "status": status.value, "updated_at": now}
    fields |= {f"{stage.step}.{name}": value for name, value in own.items()}
    fields[f"{stage.step}.state"] = (StageState.DONE if is_next else state).value
    if is_next:
        fields |= {"stage": status.value, f"{status.lower()}.state": state.value, f"{status.lower()}.queued_at": now}
    if status in TERMINAL:
        fields["finished_at"] = now
    fields |= _artifact_fields(artifacts or {})
    return Change(stage, states, fields, is_end=status in TERMINAL)


# --- as the fields of a Redis hash -----------------------------------------------------------------
ARTIFACT = "artifact:"
_TEXT_FIELDS = ("job_id", "created_at", "updated_at", "owner", "name", "claim")


def to_fields(record: JobRecord) -> dict[str, str]:
    """The record as flat text fields: stages are `<step>.<field>`, artifacts `artifact:<name>`, the rest that has parts
    is JSON."""
    fields = {name: str(getattr(record, name)) for name in _TEXT_FIELDS}
    fields |= {
        "status": record.status.value,
        "stage": record.stage.value,
        "progress": str(record.progress),
        "finished_at": record.finished_at or "",
        "output": json.dumps(record.output),
        "error": json.dumps(asdict(record.error)) if record.error else "",
        "tags": json.dumps(record.tags),
        "options": record.options.model_dump_json(exclude_defaults=True),
        "intake": json.dumps(record.intake),
    }
    for step, stage in record.stages.items():
        fields |= {f"{step}.{name}": text for name, text in _stage_fields(stage).items() if text}
    return fields | _artifact_fields(record.artifacts)


def from_fields(fields: dict[str, str]) -> JobRecord:
    """Inverse of to_fields."""
    error = fields.get("error")
    return JobRecord(
        **{name: fields[name] for name in _TEXT_FIELDS},
        finished_at=fields.get("finished_at") or None,
        status=Status(fields["status"]),
        stage=Stage(fields["stage"]),
        output=json.loads(fields["output"]),
        error=JobError(**json.loads(error)) if error else None,
        tags=tuple(json.loads(fields["tags"])),
        options=Options.model_validate_json(fields["options"]),
        stages={stage.step: _stage(fields, stage.step) for stage in Stage},
        artifacts={
            name.removeprefix(ARTIFACT): Artifact(**json.loads(text))
            for name, text in fields.items()
            if name.startswith(ARTIFACT)
        },
        intake=json.loads(fields["intake"]),
    )


def live_fields(stage: Stage, progress: int, message: str, now: str) -> dict[str, str]:
    """What a running stage reports between its claim and its end. progress: 0..100 of this stage."""
    whole = (list(Stage).index(stage) * 100 + progress) // len(Stage)
    return {
        f"{stage.step}.progress": str(progress), f"{stage.step}.message": message, "progress": str(whole),
        "updated_at": now,
    }  # fmt: skip


def to_json(record: JobRecord, queue_position: int | None = None) -> dict[str, Any]:
    """The record as the API shows it."""
    shown = {**asdict(record), "options": record.options.model_dump(mode="json"), "progress": record.progress}
    del shown["claim"]
    return {**shown, "tags": list(record.tags), "queue_position": queue_position}


def _stage_fields(stage: StageRecord) -> dict[str, str]:
    return {
        "state": stage.state.value,
        "progress": str(stage.progress) if stage.progress else "",
        "message": stage.message,
        "queued_at": stage.queued_at or "",
        "started_at": stage.started_at or "",
        "finished_at": stage.finished_at or "",
        "worker": stage.worker or "",
        "summary": json.dumps(stage.summary) if stage.summary else "",
        "versions": json.dumps(stage.versions) if stage.versions else "",
    }


def _stage(fields: dict[str, str], step: str) -> StageRecord:
    def text(name: str) -> str:
        return fields.get(f"{step}.{name}", "")

    return StageRecord(
        state=StageState(text("state")),
        progress=int(text("progress") or 0),
        message=text("message"),
        queued_at=text("queued_at") or None,
        started_at=text("started_at") or None,
        finished_at=text("finished_at") or None,
        worker=text("worker") or None,
        summary=json.loads(text("summary") or "{}"),
        versions=json.loads(text("versions") or "{}"),
    )


def _artifact_fields(artifacts: dict[str, Artifact]) -> dict[str, str]:
    return {ARTIFACT + name: json.dumps(asdict(artifact)) for name, artifact in artifacts.items()}
