"""The job record, its stages and its statuses, and the one transition table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property

from app.conversion.options import Options
from app.kit.text.json_values import JsonObject

SNR_DB_MIN = 20.0
"""Kneron's manual calls an output of 20 dB and more acceptable."""


class Stage(StrEnum):
    """The three steps, in order. Values are the requirement's words for `stage` and `status`."""

    ONNX = "ONNX"
    BIE = "BIE"
    NEF = "NEF"

    @cached_property
    def step(self) -> str:
        """The name in the done message, the queues and the logs."""
        return self.value.lower()

    @cached_property
    def place(self) -> int:
        """How many stages come before it."""
        return list(Stage).index(self)

    @cached_property
    def before(self) -> Stage | None:
        return list(Stage)[self.place - 1] if self.place else None

    @cached_property
    def next(self) -> Stage | None:
        following = list(Stage)[self.place + 1 :]
        return following[0] if following else None


STEPS = tuple(stage.step for stage in Stage)


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


class Verdict(StrEnum):
    """Whether the quantized model satisfies the quality rule of its toolchain."""

    PASSED = "PASSED"
    BELOW_RULE = "BELOW_RULE"


class Event(StrEnum):
    CLAIM = "CLAIM"
    GIVE_BACK = "GIVE_BACK"
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    CANCEL = "CANCEL"


def _build_transitions() -> dict[tuple[Status, StageState, Event], tuple[Status, StageState]]:
    table = {}
    for stage in Stage:
        here = Status(stage.value)
        after = (Status(stage.next.value), StageState.QUEUED) if stage.next else (Status.COMPLETED, StageState.DONE)
        table[here, StageState.QUEUED, Event.CLAIM] = (here, StageState.RUNNING)
        table[here, StageState.RUNNING, Event.GIVE_BACK] = (here, StageState.QUEUED)
        table[here, StageState.RUNNING, Event.SUCCEED] = after
        for state in (StageState.QUEUED, StageState.RUNNING):
            table[here, state, Event.FAIL] = (Status.FAILED, StageState.FAILED)
            table[here, state, Event.CANCEL] = (Status.FAILED, StageState.FAILED)
    return table


TRANSITIONS = _build_transitions()
"""(status, state of its stage, event) → (status, state of that status's stage). Anything else is refused."""

OUTPUT_KEYS = tuple(f"{stage.step}_key" for stage in Stage)

TERMINAL = frozenset(Status) - {status for status, _, _ in TRANSITIONS}


@dataclass(frozen=True)
class StageRecord:
    """One stage of one job. Times are ISO 8601 in UTC."""

    state: StageState = StageState.WAITING
    progress: int = 0
    """0..100."""
    message: str = ""
    """Its current activity."""
    queued_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    worker: str | None = None
    """Name of the slot that ran it."""
    summary: JsonObject = field(default_factory=dict)
    """The few numbers of its report that the record stores."""
    versions: dict[str, str] = field(default_factory=dict)
    """Tool → version."""
    reused_from: str | None = None
    """The job that had done the same work before; None if this job did it."""
    saved_s: float | None = None
    """How long that took, in seconds."""


NOT_YET = StageRecord()
"""A stage without any information yet."""


@dataclass(frozen=True)
class JobError:
    step: str
    """The stage that failed: onnx, bie or nef."""
    reason: str
    code: str = "STAGE_FAILED"
    """Machine-readable cause."""
    hint: str = ""
    """A hint."""
    detail: JsonObject = field(default_factory=dict)
    """Facts for programs, JSON-able."""


@dataclass(frozen=True)
class Artifact:
    key: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class JobRecord:
    """A job's record. The first seven fields and `output`, `error` are the requirement's; the rest is additional."""

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
    intake: JsonObject = field(default_factory=dict)
    """The result of the checks on submission: facts about the model and the images, warnings."""
    claim: str = ""
    """The claim of the worker that may report on the running stage; empty if there is none."""
    origin: str = ""
    """The URI that the model was fetched from, or task:<id> of the training task that made it; empty if it was
    uploaded."""
    sweep_id: str = ""
    """The sweep that submitted the job; empty if none did."""
    forecast_s: float | None = None
    """Forecast of its duration in seconds, on submission; None if too few jobs had finished."""
    notes: str = ""
    """The user's notes."""
    keep: bool = False
    """Its files are kept for good."""
    no_cache: bool = False
    """Every stage runs, without the cache."""

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def current(self) -> StageRecord:
        return self.stages[self.stage.step]

    @property
    def verdict(self) -> Verdict | None:
        """None until stage BIE has ended, or if it was not measured."""
        passed = self.stages[Stage.BIE.step].summary.get("passed")
        return None if passed is None else Verdict.PASSED if passed else Verdict.BELOW_RULE

    @property
    def snr_db(self) -> float | None:
        """Of the worst output, in dB; None if it is not measured."""
        return self.stages[Stage.BIE.step].summary.get("snr_db")

    @property
    def size_bytes(self) -> int | None:
        """Of the quantized model; of the compiled one where that is not known."""
        sizes = (self.stages[stage.step].summary.get("size_bytes") for stage in (Stage.BIE, Stage.NEF))
        return next(filter(None, sizes), None)

    @property
    def latency_ms(self) -> float | None:
        """Of one inference of the quantized model: measured here, or by the vendor's report."""
        summary = self.stages[Stage.BIE.step].summary
        return summary.get("latency_ms", summary.get("itc_ms"))

    @property
    def rule_db(self) -> float:
        """The SNR in dB that the verdict requires of every output."""
        return float(self.stages[Stage.BIE.step].summary.get("rule_db", SNR_DB_MIN))

    @property
    def progress(self) -> int:
        """0..100 over the whole job, the three stages counting equally."""
        return sum(record.progress for record in self.stages.values()) // len(STEPS)


def submitted(
    job_id: str,
    *,
    now: str,
    owner: str,
    name: str,
    tags: tuple[str, ...],
    options: Options,
    inputs: dict[str, Artifact],
    intake: JsonObject,
    origin: str = "",
    sweep_id: str = "",
    forecast_s: float | None = None,
    no_cache: bool = False,
) -> JobRecord:
    """The record of a new job, its first stage queued.

    Args:
        now: text in ISO 8601.
        inputs: the uploaded files, by name.
        intake: the result of the checks of model and samples.
        origin: see JobRecord.
        sweep_id: see JobRecord.
        forecast_s: the forecast of its duration in seconds, on submission; None: unknown.
        no_cache: every stage runs, without the cache.
    """
    stages = dict.fromkeys(STEPS, NOT_YET)
    stages[Stage.ONNX.step] = StageRecord(state=StageState.QUEUED, queued_at=now)
    return JobRecord(
        job_id=job_id,
        created_at=now,
        updated_at=now,
        status=Status.ONNX,
        stage=Stage.ONNX,
        owner=owner,
        name=name,
        tags=tags,
        options=options,
        output=dict.fromkeys(OUTPUT_KEYS),
        stages=stages,
        artifacts=inputs,
        intake=intake,
        origin=origin,
        sweep_id=sweep_id,
        forecast_s=forecast_s,
        no_cache=no_cache,
    )


def to_json(record: JobRecord) -> JsonObject:
    """The record as the API shows it."""
    data = {**asdict(record), "options": record.options.model_dump(mode="json"), "progress": record.progress}
    data["verdict"] = record.verdict
    del data["claim"]
    return {**data, "tags": list(record.tags)}
