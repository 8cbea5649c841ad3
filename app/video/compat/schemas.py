"""What the requirement's endpoints answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from app.video.model.job import JobState

Json = dict[str, Any]


class Done(BaseModel):
    status: Literal[0]


class Refusal(BaseModel):
    """A rejected request: the reason, and usually what to do."""

    status: Literal[1]
    error: str
    code: str
    hint: str | None = None
    detail: Json | None = None


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
    constraint: Json | None = None


class ConstraintTaken(Done):
    msg: str
    job_uid: str
    constraint: Json


class LatestResult(BaseModel):
    plan: Json | None
    plan_result: Json


class RecentResults(BaseModel):
    appended_result: list[Json]
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
