"""What the requirement's endpoints answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel

from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.results.model.frame_result import Row
from app.video.model.job import JobState
from app.video.schemas import ConstraintJson, PlanJson, PlanResultJson


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
    constraint: ConstraintJson | None = None


class ConstraintTaken(Done):
    msg: str
    job_uid: str
    constraint: ConstraintJson


class LatestResult(BaseModel):
    plan: PlanJson | None
    plan_result: PlanResultJson


class RecentResults(BaseModel):
    appended_result: Annotated[list[JsonObject], DescribedType(list[Row])]
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
