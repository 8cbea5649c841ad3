"""What the requirement's endpoints answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from app.kit.text.json_values import JsonObject
from app.video.model.job import JobState


class Done(BaseModel):
    status: Literal[0]


class Refusal(BaseModel):
    """A rejected request: the reason, and usually what to do."""

    status: Literal[1]
    error: str
    code: str
    hint: str | None = None
    detail: JsonObject | None = None


class NodeStatus(BaseModel):
    video: dict[str, dict[str, str]]
    """By id: type, name, and where there are size, fps and problem."""
    node: str
    online: bool
    last_seen: str | None
    job_uid_list: list[str]


class AllStatus(Done):
    data: dict[str, NodeStatus]
    """By node_addr."""


class JobTaken(Done):
    msg: str
    job_uid: str
    node_addr: str | None = None
    unique_job_id: str | None = None
    constraint: JsonObject | None = None


class ConstraintTaken(Done):
    msg: str
    job_uid: str
    constraint: JsonObject


class LatestResult(BaseModel):
    plan: JsonObject | None
    plan_result: JsonObject


class RecentResults(BaseModel):
    appended_result: list[JsonObject]
    """Of the last ten frames, newest last."""
    latest_result: LatestResult


class JobResult(Done):
    result: RecentResults
    state: JobState
    flags: list[str]
    no_signal_since: str | None


class OfJob(Done):
    job_uid: str
    msg: str | None = None


class Joined(Done):
    node_addr: str
