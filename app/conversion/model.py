"""The job record, its statuses and the one transition table. Pure: no clock, no Redis, no framework."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
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
    version: int = 1

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
        tags=tags, options=options, output={"onnx_key": None, "bie_key": None, "nef_key": None}, stages=stages,
        artifacts=inputs, intake=intake,
    )  # fmt: skip


def can(record: JobRecord, event: Event, step: str) -> bool:
    """Is the event about the stage the job is in, and does the table know it?"""
    if record.is_terminal or record.stage.step != step:
        return False
    return (record.status, record.current.state, event) in TRANSITIONS


def claimed(record: JobRecord, *, worker: str, now: str) -> JobRecord:
    running = replace(record.current, state=StageState.RUNNING, started_at=now, worker=worker)
    return _moved(record, Event.CLAIM, running, now, claim=f"{worker}#{record.stage.step}#{record.version}")


def succeeded(
    record: JobRecord, *, now: str, result_key: str, artifacts: dict[str, Artifact], summary: dict[str, Any],
    versions: dict[str, str],
) -> JobRecord:  # fmt: skip
    done = replace(
        record.current, state=StageState.DONE, progress=100, message="", finished_at=now, summary=summary,
        versions=versions,
    )  # fmt: skip
    output = {**record.output, f"{record.stage.step}_key": result_key}
    return _moved(record, Event.SUCCEED, done, now, output=output, artifacts={**record.artifacts, **artifacts})


def failed(record: JobRecord, *, now: str, error: JobError, artifacts: dict[str, Artifact] | None = None) -> JobRecord:
    ended = replace(record.current, state=StageState.FAILED, finished_at=now)
    return _moved(record, Event.FAIL, ended, now, error=error, artifacts={**record.artifacts, **(artifacts or {})})


CANCELLED = "CANCELLED"


def cancelled(record: JobRecord, *, now: str) -> JobRecord:
    """The requirement knows five statuses, so a cancelled job is FAILED with the reason CANCELLED."""
    ended = replace(record.current, state=StageState.FAILED, finished_at=now)
    error = JobError(step=record.stage.step, reason=CANCELLED, code=CANCELLED, hint="Submit it again when you need it.")
    return _moved(record, Event.CANCEL, ended, now, error=error)


def _moved(record: JobRecord, event: Event, ended: StageRecord, now: str, claim: str = "", **changes: Any) -> JobRecord:
    status, state = TRANSITIONS[record.status, record.current.state, event]
    stages = {**record.stages, record.stage.step: ended}
    stage = record.stage
    if status.value != record.status.value and status not in TERMINAL:
        stage = Stage(status.value)
        stages[stage.step] = StageRecord(state=state, queued_at=now)
    finished_at = now if status in TERMINAL else None
    return replace(
        record,
        status=status,
        stage=stage,
        stages=stages,
        updated_at=now,
        finished_at=finished_at,
        claim=claim,
        **changes,
    )


# --- as the fields of a Redis hash ----------------------------------------------------------------
_JSON_FIELDS = ("output", "error", "tags", "options", "stages", "artifacts", "intake")


def to_fields(record: JobRecord, unlike: JobRecord | None = None) -> dict[str, str]:
    """The record as flat text fields; nested ones are JSON. With `unlike`, only what differs from it."""
    fields = {
        name: _dump(name, getattr(record, name))
        for name in record.__dataclass_fields__
        if name != "version" and (unlike is None or getattr(record, name) != getattr(unlike, name))
    }
    return {**fields, "progress": str(record.progress)}


def from_fields(fields: dict[str, str]) -> JobRecord:
    """Inverse of to_fields; `stage_progress` and `message`, written while a stage runs, go into its stage."""
    stages = {step: _stage(data) for step, data in json.loads(fields["stages"]).items()}
    stage = Stage(fields["stage"])
    if fields.get("claim") and fields.get("live_claim") == fields["claim"]:
        live = replace(stages[stage.step], progress=int(fields["live_progress"]), message=fields["live_message"])
        stages[stage.step] = live
    error = json.loads(fields["error"])
    return JobRecord(
        job_id=fields["job_id"],
        created_at=fields["created_at"],
        updated_at=fields["updated_at"],
        finished_at=fields["finished_at"] or None,
        status=Status(fields["status"]),
        stage=stage,
        output=json.loads(fields["output"]),
        error=JobError(**error) if error else None,
        owner=fields["owner"],
        name=fields["name"],
        tags=tuple(json.loads(fields["tags"])),
        options=Options.model_validate_json(fields["options"]),
        stages=stages,
        artifacts={name: Artifact(**data) for name, data in json.loads(fields["artifacts"]).items()},
        intake=json.loads(fields["intake"]),
        claim=fields["claim"],
        version=int(fields["version"]),
    )


def live_fields(record: JobRecord, claim: str, progress: int, message: str, now: str) -> dict[str, str]:
    """What a running stage reports between its claim and its end; record is the job as it was claimed."""
    whole = (record.progress * len(Stage) + progress) // len(Stage)
    return {
        "live_claim": claim, "live_progress": str(progress), "live_message": message, "progress": str(whole),
        "updated_at": now,
    }  # fmt: skip


def to_json(record: JobRecord, queue_position: int | None = None) -> dict[str, Any]:
    """The record as the API shows it."""
    shown = {**asdict(record), "options": record.options.model_dump(mode="json"), "progress": record.progress}
    del shown["claim"], shown["version"]
    return {**shown, "tags": list(record.tags), "queue_position": queue_position}


def _stage(data: dict[str, Any]) -> StageRecord:
    return StageRecord(**{**data, "state": StageState(data["state"])})


def _dump(name: str, value: Any) -> str:
    if name == "options":
        return str(value.model_dump_json(exclude_defaults=True))
    if name in _JSON_FIELDS:
        return json.dumps(value, default=asdict)
    return "" if value is None else str(value)
