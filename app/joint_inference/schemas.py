"""The JSON API's forms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, RootModel, WithJsonSchema

from app.joint_inference.model.crd import RESOURCE_SCHEMA
from app.joint_inference.model.resource import Role
from app.joint_inference.model.rollout import RolloutAction, RolloutState
from app.joint_inference.model.tally import Source
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import Strict
from app.nodes.model import WorkerState


class ServiceQuery(BaseModel):
    """namespace: of one; q: part of a name; state: type of the current condition."""

    namespace: str | None = None
    q: Annotated[str, Field(max_length=253)] = ""
    state: Literal["", "Pending", "Running", "Failed"] = ""
    cursor: Annotated[str, Field(max_length=100)] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class ApplyQuery(BaseModel):
    """apply: replace what has this name already."""

    apply: bool = False


class Resource(RootModel[Annotated[JsonObject, WithJsonSchema(RESOURCE_SCHEMA)]]):
    """A JointInferenceService as in the Kubernetes API."""


class VersionAnswer(BaseModel):
    model: str
    version: int | None
    """Null: not known yet."""
    sha256: str


class RolloutAnswer(BaseModel):
    """The roll-out of a new edge model to the nodes."""

    state: RolloutState
    former: VersionAnswer
    """The model that a roll-back returns to."""
    target: VersionAnswer
    """The model that is rolled out."""
    wave: int
    """The present one, the first is 1; 0: none has begun."""
    wave_at: str
    nodes: list[str]
    """Those that have the target."""
    reason: str
    """Why it went back."""


class RolloutChange(Strict):
    action: RolloutAction


TaskInfoJson = dict[str, float | str | bool | None]
"""A taskInfo: numbers and short texts by name."""


class WorkerAnswer(BaseModel):
    """What its node has not reported yet is missing."""

    role: Role
    node: str
    is_online: bool
    wanted: VersionAnswer
    """What the node was told to run."""
    runs: VersionAnswer | None
    """What runs, as far as the worker says."""
    reported: TaskInfoJson
    """The last taskInfo of an edge worker."""
    name: str
    state: WorkerState | None
    generation: int = 0
    former_generation: int = 0
    """Of the order whose process continues because this one could not be started; 0: none."""
    pid: int = 0
    address: str = ""
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    log: list[str] = []
    started_at: str = ""
    detail: JsonObject = {}
    """The report of the worker itself."""
    is_encrypted: bool = False


class ServiceAnswer(BaseModel):
    """The resource as in the Kubernetes API, and further fields."""

    resource: Resource
    workers: Annotated[list[JsonObject], DescribedType(list[WorkerAnswer])]
    """Of both sides, as their nodes report them."""
    reported: TaskInfoJson
    """The last taskInfo of the edge worker; of several: added up. Each worker has its own."""
    rollout: RolloutAnswer | None
    """Null: a new model goes to all nodes at once."""
    warnings: list[str]
    """What of the resource was left out, or is not read by anything; a sentence each."""
    links: dict[str, str]


class ServiceSummary(BaseModel):
    namespace: str
    name: str
    uid: str
    generation: int
    created_at: str
    state: str
    reason: str
    message: str
    since: str
    """When state or reason became what they are."""
    active: int
    failed: int
    metrics: dict[str, str]
    edge: dict[str, str]
    cloud: dict[str, str]
    is_deleting: bool


class ServicesAnswer(BaseModel):
    services: list[ServiceSummary]
    next_cursor: str | None


class EventAnswer(BaseModel):
    at: str
    type: str
    reason: str
    message: str


class EventsAnswer(BaseModel):
    events: list[EventAnswer]


class PredictionAnswer(BaseModel):
    """The answer of a model to a picture."""

    boxes: list[list[float]]
    """[x1, y1, x2, y2, score, index of the class] each, in pixels."""
    probabilities: list[float]
    """Of a classifier, by class; empty for a detector."""
    ms: float
    runtime: str
    keypoints: list[list[list[float]]] = []
    """Of each object [x, y, score] of each of its key points."""
    masks: list[list[list[float]]] = []
    """Of each object its polygons, [x, y, x, y, …] each."""
    texts: list[str] = []
    """What is written there, of each object."""


class SampleAnswer(BaseModel):
    """A hard sample with both answers."""

    id: str
    at: str
    width: int
    height: int
    why: str
    """The algorithm's reason."""
    score: float
    source: Source
    edge: PredictionAnswer
    cloud: PredictionAnswer | None
    """Null: it did not answer."""
    edge_ms: float
    cloud_ms: float | None
    bytes_up: int
    labels: list[str]
    origin: str
    """Of the picture: the name of a file and the number of the frame."""
    extra: JsonObject
    picture: str
    """Address of the picture."""


class SamplesAnswer(BaseModel):
    """Newest first."""

    samples: Annotated[list[JsonObject], DescribedType(list[SampleAnswer])]


class Acknowledged(BaseModel):
    """The response of the requirement to a message that was understood."""

    Status: int = 200
    Message: str = "OK"
