"""The JSON API's forms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.joint_inference.model.rollout import RolloutAction, RolloutState
from app.kit.text.json_values import JsonObject
from app.kit.web.strict import Strict


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


class RolloutAnswer(BaseModel):
    """The roll-out of a new edge model to the nodes."""

    state: RolloutState
    former: JsonObject
    """The model that a roll-back returns to: {model, version, sha256}."""
    target: JsonObject
    """The model that is rolled out: {model, version, sha256}."""
    wave: int
    """The present one, the first is 1; 0: none has begun."""
    wave_at: str
    nodes: list[str]
    """Those that have the target."""
    reason: str
    """Why it went back."""


class RolloutChange(Strict):
    action: RolloutAction


class ServiceAnswer(BaseModel):
    """The resource as in the Kubernetes API, and further fields."""

    resource: JsonObject
    workers: list[JsonObject]
    """Of both sides, as their nodes report them: {role, node, is_online, name, state, pid, restarts, …}. wanted:
    {model, sha256}, what the node was told to run; detail has model and sha256 of what does run."""
    reported: JsonObject
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


class SamplesAnswer(BaseModel):
    """Newest first: {id, at, width, height, why, score, source, edge, cloud, …}, each with its picture's address."""

    samples: list[JsonObject]


class Acknowledged(BaseModel):
    """The response of the requirement to a message that was understood."""

    Status: int = 200
    Message: str = "OK"
