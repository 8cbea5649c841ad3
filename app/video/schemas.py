"""What the JSON API of video takes and gives."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, RootModel, StrictInt, StrictStr

from app.inference.broadcast import Broadcast
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import TEXT, Strict
from app.results.model.frame_result import Row
from app.video.model.constraint import ConstraintDocument
from app.video.model.dag import DagDocument, GateDocument
from app.video.model.drawn_video import Recording
from app.video.model.job import Ending, JobState, Mode, RestartPolicy
from app.video.model.kinds import Stage
from app.video.model.plan import Plan, StagePlace, VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import GeneratorInfo, ResourceInfo
from app.video.service import JobEvent

UID = r"^GLOBAL_ID_[0-9]{1,10}\.SUB_ID_[0-9]{1,9}$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Text = Annotated[str, Field(max_length=200, pattern=TEXT)]
VideoId = Annotated[StrictInt, Field(ge=0, le=9999)] | Annotated[StrictStr, Field(max_length=64, pattern=TEXT)]
NodeText = Annotated[str, Field(min_length=1, max_length=255, pattern=TEXT)]
DagJson = Annotated[JsonObject, DescribedType(DagDocument)]
ConstraintJson = Annotated[JsonObject, DescribedType(ConstraintDocument)]
VideoConfJson = Annotated[JsonObject, DescribedType(VideoConf)]
FlowMappingJson = Annotated[JsonObject, DescribedType(dict[str, StagePlace])]
PlanJson = Annotated[JsonObject, DescribedType(Plan)]
PlanResultJson = Annotated[JsonObject, DescribedType(PlanResult)]
StageNames = Annotated[list[Annotated[str, Field(pattern=NAME)]], Field(min_length=1, max_length=20)]


# --- requests ----------------------------------------------------------------------------------
class JobQuery(Strict):
    """Filters and paging of the list."""

    state: JobState | None = None
    q: Text = ""
    """Text in the name, the uid, the node or the video."""
    cursor: Annotated[str, Field(max_length=128, pattern=TEXT)] | None = None
    """next_cursor of the previous page."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class DagOrStages(Strict):
    dag: DagJson | None = None
    stages: StageNames | None = None
    """Instead of a DAG: names in the order they run; whose output each input is goes without saying."""


class JobFields(DagOrStages):
    gate: Annotated[JsonObject, DescribedType(GateDocument)] | None = None
    """dag.gate: which frames are processed."""
    recording: Annotated[JsonObject, DescribedType(Recording)] | None = None
    """dag.recording: keep its drawn picture on the node."""
    broadcast: Annotated[JsonObject, DescribedType(Broadcast)] | None = None
    """dag.broadcast: push its drawn picture to the node's media server."""
    constraint: ConstraintJson | None = None
    policy: Text = ""
    restart_policy: RestartPolicy | None = None
    """Null: always for a live source, such as a camera; never for another."""
    realtime: bool = True
    name: Text = ""
    """Name that the user has given."""


class NewJob(JobFields):
    node: NodeText
    """Name or address of the node with the video."""
    video_id: VideoId


class NewJobSet(JobFields):
    """A DAG, or stages: see NewJob."""

    node_selector: Annotated[dict[str, str], Field(min_length=1, max_length=64)]
    """Labels that select the nodes, such as {"site": "berlin"}."""
    video_id: VideoId | None = None
    """Id of the video on each node; null: all videos."""


class JobEdit(Strict):
    """Body of PATCH: fields that are not given do not change."""

    name: Text | None = None
    """Name that the user has given; empty: none."""


class NewProfile(DagOrStages):
    """A DAG, or stages: see NewJob."""

    node: NodeText
    video_id: VideoId


class NewConstraint(RootModel[ConstraintJson]):
    """Body of PUT constraint."""


class Choice(Strict):
    policy: Text


class NewPlan(Strict):
    video_conf: VideoConfJson
    flow_mapping: FlowMappingJson


class DecisionQuery(Strict):
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    """Largest number of entries, newest first."""


# --- responses -------------------------------------------------------------------------------
class JobSummary(BaseModel):
    uid: str
    name: str
    """Its user's own; empty where it has none."""
    node: str
    video_id: str
    mode: Mode
    state: JobState
    ending: Ending | None
    reason: str
    policy: str
    flags: list[str]
    no_signal_since: str | None
    """Of its last picture, while the source gives none."""
    n_loop: int
    progress: float
    created_at: str
    ended_at: str | None
    reported_at: str | None
    delay_s: float | None
    """p50 of a frame, from capture to result."""
    fps: float | None
    links: dict[str, str]


class JobSetAnswer(BaseModel):
    set_id: str
    name: str
    created_at: str
    node_selector: dict[str, str]
    video_id: str
    """Empty: all of each node."""
    problem: str
    """Why a job could not be submitted; empty: all were."""
    running: int
    """Jobs that run and are flagged with nothing."""
    under_way: int
    """Jobs that have not ended."""
    jobs: list[JobSummary]
    links: dict[str, str]


class JobSetsAnswer(BaseModel):
    job_sets: list[JobSetAnswer]


class JobsAnswer(BaseModel):
    jobs: list[JobSummary]
    next_cursor: str | None


class BroadcastAnswer(BaseModel):
    url: str
    """Where viewers find it, without user and password."""
    is_sending: bool
    frames: int
    """Sent since the start of the job's process."""
    connections: int
    """Made since the start of the job's process."""
    core_share: float
    """Share of one core that drawing and encoding take."""
    problem: str
    """The last problem; while nothing is sent, the reason. Empty: there was none."""


class JobAnswer(JobSummary):
    dag: DagJson
    stages: Annotated[list[JsonObject], DescribedType(list[Stage])]
    """With their models pinned, by model_id."""
    constraint: ConstraintJson
    restart_policy: RestartPolicy
    realtime: bool
    plan: PlanJson | None
    plan_result: PlanResultJson
    generator_output: Annotated[JsonObject, DescribedType(GeneratorInfo)]
    """Without fps while the source's own rate is not known: that of the plan is then only a limit."""
    broadcast: BroadcastAnswer | None
    """Null: its picture is not broadcast, or nothing was reported yet."""


class ResultsAnswer(BaseModel):
    """results: the newest ten, newest last."""

    results: Annotated[list[JsonObject], DescribedType(list[Row])]
    plan: PlanJson | None
    plan_result: PlanResultJson


class EventsAnswer(BaseModel):
    """Oldest first."""

    events: list[JobEvent]


class DecisionAnswer(BaseModel):
    at: str
    seq: int
    policy: str
    why: str
    """What asked for it."""
    outcome: str
    reason: str
    took_ms: float
    inputs_hash: str
    plan: PlanJson | None
    """Null: the last one stayed."""


class DecisionsAnswer(BaseModel):
    """Newest first."""

    decisions: list[DecisionAnswer]


class PointAnswer(BaseModel):
    at: str
    plan_result: PlanResultJson
    plan: PlanJson | None
    """Null: the results are those of another plan than the newest."""
    hi: float
    """The longest delay that the constraint allows, in seconds."""


class SeriesAnswer(BaseModel):
    """Oldest first."""

    points: list[PointAnswer]


class ResourcesAnswer(BaseModel):
    """By node_ip, as the job's policy is given them; without stages that are neither the job's nor for its user."""

    resources: Annotated[JsonObject, DescribedType(ResourceInfo)]
