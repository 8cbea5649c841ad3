"""What the JSON API of training takes and gives. Extra keys are allowed; those named here hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue

from app.kit.text.json_values import JsonObject
from app.kit.web.strict import TEXT, Moment, Strict
from app.training.model import FailureKind, Priority, State, Workload

MAX_TAIL = 5000


class TaskQuery(Strict):
    """Filters and paging of GET /api/v2/tasks."""

    workload: Workload | None = None
    state: State | None = None
    since: Moment | None = None
    """Created at this time or later, with its offset from UTC, such as 2026-11-20T00:00:00Z."""
    until: Moment | None = None
    """Created before this time."""
    q: Annotated[str, Field(max_length=200, pattern=TEXT)] | None = None
    """Text in the id or the name."""
    user: Annotated[str, Field(max_length=32, pattern=TEXT)] | None = None
    """Tasks of this user; *: of all users (administrators). Default: my own."""
    cursor: Annotated[str, Field(pattern=r"^[0-9]{1,9}$")] | None = None
    """next_cursor of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class LogQuery(Strict):
    attempt: Annotated[int, Field(ge=1, le=999)] | None = None
    """Number of the attempt; default: the last one."""
    tail: Annotated[int, Field(ge=1, le=MAX_TAIL)] = 2000
    """Number of lines from the end."""
    q: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    """Only lines that contain this text, in upper or lower case."""
    process: Annotated[str, Field(max_length=200, pattern=TEXT)] = ""
    """Only lines of this process: "rank 3", or its name in Ray, such as "WorkerDict pid=17"."""


class MetricsQuery(Strict):
    name: Annotated[str, Field(max_length=2000, pattern=TEXT)] = ""
    """Names of series, separated by commas; empty: all."""
    points: Annotated[int, Field(ge=2, le=10_000)] = 500
    """Largest number of points of each series; longer ones are reduced to the lowest and highest point of each
    section."""


class EventQuery(Strict):
    after: Annotated[int, Field(ge=0, le=(1 << 31) - 1)] = 0
    """The last event_id that was received."""


class TaskChange(Strict):
    priority: Priority
    """The priority; only administrators may set high."""


FieldName = Annotated[str, Field(max_length=300, pattern=TEXT)]


class TaskAgain(Strict):
    set: dict[FieldName, JsonValue] = Field(default_factory=dict, max_length=200)
    """New values of fields, nested ones with a dot, such as overrides.trainer.seed; null removes a field."""
    resume: Annotated[int, Field(ge=0)] | Literal["last", "best"] | None = None
    """Resume from a checkpoint of that task: the last, the best, or that of a given step."""


class NewExport(Strict):
    checkpoint: Annotated[int, Field(ge=0)] | Literal["last", "best"] = "last"
    """Checkpoint of the task: the last, the best, or that of a step."""
    onnx: bool = False
    """Whether an ONNX model is exported, too, if optimum of Hugging Face on the nodes supports the architecture."""


class NewConversion(Strict):
    artifact: Annotated[str, Field(min_length=1, max_length=1000)]
    """Path of the ONNX model among the artifacts of the task."""
    images: Annotated[str, Field(max_length=4096)] = ""
    """Samples for the quantization, a zip or a folder: from the folder of the task, or a whole path. Without it those
    that the task left beside the model."""
    name: Annotated[str, Field(max_length=200)] = ""
    options: JsonObject = Field(default_factory=dict)
    """Of the conversion, as POST /jobs takes them; what they leave out is as the task describes its model."""


class NewTaskModel(Strict):
    artifact: Annotated[str, Field(min_length=1, max_length=1000)]
    """Path of the ONNX model among the artifacts of the task."""
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name of the model in the registry."""
    new_version: bool = False
    """Whether it becomes the next version if there is a model of this name."""
    note: Annotated[str, Field(max_length=500)] = ""
    """Note about this version; default: the task."""


class TaskModelAnswer(BaseModel):
    name: str
    version: int
    model: str
    page: str


class FolderAnswer(BaseModel):
    path: str
    """As tasks name it; empty when it was deleted."""
    is_trashed: bool
    trash_at: str | None
    purge_at: str | None
    """null until the attempt, or for checkpoints the task, has ended."""


class AttemptAnswer(BaseModel):
    attempt_no: int
    ray_submission_id: str
    ray_status: str
    """Ray's own word; empty before it has one."""
    ray_job_id: str
    driver_node_id: str
    failure_kind: FailureKind | None
    exit_code: int | None
    message: str
    created_at: str
    start_time: str | None
    end_time: str | None
    placement_pending_since: str | None
    """Its program runs, and has waited since then inside for resources."""
    preempt_asked_at: str | None
    """Since then it is to give way to a more urgent task, at its next checkpoint."""
    log_bytes: int
    folder: FolderAnswer | None
    """null before it has one, and in lists."""


class WaitingAnswer(BaseModel):
    code: str
    facts: JsonObject


class DemandAnswer(BaseModel):
    nodes: int
    gpus_per_node: int
    gpus: int
    cpus: float
    resources: dict[str, float]
    """Custom ones of each node of its; a type of GPU as accelerator_type:A100."""


class TaskSummary(BaseModel):
    task_id: str
    user: str
    name: str
    sweep_id: str
    """Of the sweep that it belongs to; empty: of none."""
    environment: str
    """What it runs in; empty: what the nodes have."""
    cluster: str
    """Where it may start: empty is the default cluster, any the first that has room."""
    workload: Workload
    priority: Priority
    state: State
    created_at: str
    updated_at: str
    ended_at: str | None
    demand: DemandAnswer
    waiting_reason: str
    """In words; empty when it does not wait."""
    waiting: WaitingAnswer | None
    next_run_at: str | None
    cancel_requested_at: str | None
    releasable_from: str | None
    """From when on it may be let go although Ray has not said that it stopped; null when it is not being cancelled."""
    may_still_run: bool
    """It was let go, and Ray has not said since then that its program ended."""
    failure_kind: FailureKind | None
    error_summary: str
    latest_attempt: AttemptAnswer | None


class ArtifactAnswer(BaseModel):
    path: str
    """In the folder of the last attempt."""
    file: str
    """As tasks name it."""


class ConversionAnswer(BaseModel):
    attempt_no: int
    artifact: str
    created_at: str
    job_id: str
    """Empty while it is being made, or if it could not be: see problem."""
    problem: str
    next_try_at: str | None
    """When it is tried (again); null once it is made, or given up."""
    job: str | None
    page: str | None


class LinksAnswer(BaseModel):
    task: str
    page: str
    log_page: str
    logs: str
    metrics: str
    checkpoints: str
    events: str
    spec: str
    cancel: str
    release: str
    convert: str
    export: str


class TaskAnswer(TaskSummary):
    jobspec: str
    """As it was sent."""
    position: int | None
    """Its place in line, 1 for the head; null when it does not wait."""
    backfill: bool
    max_wait_s: int | None
    max_run_s: int | None
    max_idle_s: int | None
    attempts: list[AttemptAnswer]
    artifacts: list[ArtifactAnswer]
    """ONNX models that a task which succeeded left."""
    conversions: list[ConversionAnswer]
    checkpoints: FolderAnswer | None
    """What its attempts share: each goes on from the checkpoints of the one before. null for a script."""
    links: LinksAnswer


class ChangeAnswer(BaseModel):
    field: str
    before: JsonValue
    """null where it was not said."""
    after: JsonValue


class TaskAgainAnswer(TaskAnswer):
    changes: list[ChangeAnswer]
    """What is not as in the task that it was made of."""


class TasksAnswer(BaseModel):
    tasks: list[TaskSummary]
    next_cursor: str | None


class EventAnswer(BaseModel):
    event_id: int
    ts: str
    event_type: str
    payload: JsonObject


class EventsAnswer(BaseModel):
    events: list[EventAnswer]
    """Oldest first, at most 1000: ask again with after."""


class CheckpointAnswer(BaseModel):
    step: int
    path: str
    """As tasks name it; a new task begins with it by resume_from."""
    size_bytes: int
    written_at: str
    value: float | None
    """Of the metric, at this step; null where the task told none."""
    is_best: bool


class CheckpointsAnswer(BaseModel):
    metric: str
    """What they are judged by; empty where there is nothing to judge by."""
    checkpoints: list[CheckpointAnswer]
    """By step."""


class PointAnswer(BaseModel):
    step: float
    value: float


class SeriesAnswer(BaseModel):
    name: str
    count: int
    """How many points it has in all."""
    steps: list[float]
    values: list[float]
    times_s: list[float] | None
    """Since the first row; null where nothing tells it."""
    best: PointAnswer | None
    """The least of a loss, the highest of a reward or accuracy; null where the name tells neither."""


class MetricsAnswer(BaseModel):
    names: list[str]
    """Of all series."""
    rows: int
    unreadable: int
    """Lines of the file that are no row."""
    is_cut: bool
    """The file is longer than what is read of it."""
    summary: dict[str, float]
    """What the program left in metrics.json."""
    series: list[SeriesAnswer]


class EnvironmentAnswer(BaseModel):
    name: str
    description: str
    image: str | None
    pip: list[str]
    clusters: list[str] | None
    """Those that have it; null: all."""
    variables: list[str]
    """Names of environment variables; administrators see their values in the document."""
    secrets: list[str]
    """Names of environment variables whose values are secrets."""
    priority: Priority | None
    max_gpus_per_task: int | None
    max_gpus: int | None
    """That its running tasks hold together."""
    max_run_s: int | None
    updated_at: str
    updated_by: str | None
    """null but for administrators, as the document."""
    document: str | None


class EnvironmentsAnswer(BaseModel):
    environments: list[EnvironmentAnswer]


class StackAnswer(BaseModel):
    name: str
    """driver, or the class of an actor."""
    node_id: str
    pid: int
    text: str
    """Its threads, as py-spy writes them, or why it could not read them."""


class StacksAnswer(BaseModel):
    stacks: list[StackAnswer]
