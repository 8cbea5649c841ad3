"""The body of an upstream status, read. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from app.kit.clock import from_text, to_text
from app.kit.text.json_values import JsonObject
from app.kit.web.http import checked


def _parse_time(text: str) -> str:
    """As all our times are: they come from other clocks and other programs."""
    time = from_text(text)
    if time.tzinfo is None:
        raise ValueError("a time needs its zone, as Z")
    try:
        return to_text(time)
    except OverflowError:
        raise ValueError("a time is of our era") from None


Time = Annotated[str, Field(max_length=40), AfterValidator(_parse_time)]
MOST = 2**53
Count = Annotated[int, Field(ge=0, lt=MOST)]


class TaskInfo(BaseModel):
    """The requirement's, with numbers and short texts that the worker adds."""

    model_config = ConfigDict(extra="allow")

    inferenceNumber: Count
    hardExampleNumber: Count
    uploadCloudRatio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    startTime: Time | None = None
    currentTime: Time | None = None
    updateTime: Time | None = None
    """The other name of currentTime."""

    @model_validator(mode="after")
    def _to_task_info(self) -> TaskInfo:
        further = self.model_extra or {}
        if len(further) > 64:
            raise ValueError("too many further keys")
        for name, value in further.items():
            if len(name) > 64 or not (value is None or _is_number(value) or _is_short_text(value)):
                raise ValueError(f"{name[:64]} is neither a number nor a short text")
        return self


def _is_number(value: object) -> bool:
    """Not infinite, not NaN, and none that could be kept and not be shown."""
    return isinstance(value, int | float) and abs(value) < MOST


def _is_short_text(value: object) -> bool:
    """Of Unicode's characters: JSON can name halves of some."""
    return isinstance(value, str) and len(value) <= 500 and not any("\ud800" <= char <= "\udfff" for char in value)


class WorkerOutput(BaseModel):
    models: list[Any] | None = None
    taskInfo: TaskInfo | None = None
    ownerInfo: TaskInfo | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> WorkerOutput:
        if self.taskInfo is None and self.ownerInfo is None:
            raise ValueError("taskInfo is missing")
        return self


class WorkerStatus(BaseModel):
    """What a worker sends."""

    phase: Annotated[str, Field(max_length=64)] = "inference"
    status: Literal["completed", "failed", "running"]
    uid: Annotated[str, Field(max_length=36)] = ""
    output: WorkerOutput


class UpstreamStatus(BaseModel):
    """What of it is kept."""

    status: str
    uid: str
    node: str = ""
    """That reported it; empty: a user's program did."""
    task_info: JsonObject
    """JSON-able, with currentTime where the worker said when it was."""


def read_status(body: Any) -> UpstreamStatus:
    body_status = checked(lambda: WorkerStatus.model_validate(body))
    info = body_status.output.taskInfo or body_status.output.ownerInfo
    assert info is not None
    task_info = info.model_dump(exclude_none=True)
    if "currentTime" not in task_info and "updateTime" in task_info:
        task_info["currentTime"] = task_info["updateTime"]
    return UpstreamStatus(status=body_status.status, uid=body_status.uid, task_info=task_info)
