"""Errors of video."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.kit.errors import BadRequest, Conflict, NotFound, Unavailable
from app.kit.text.json_values import JsonObject


class BadDag(BadRequest, code="BAD_DAG"): ...


class BadPlan(BadRequest, code="BAD_PLAN"): ...


class BadJobName(BadRequest, code="BAD_VIDEO_JOB_NAME"): ...


class BadConstraint(BadRequest, code="BAD_CONSTRAINT"): ...


class BadStage(BadRequest, code="BAD_STAGE"): ...


class UnknownPolicy(BadRequest, code="UNKNOWN_POLICY"): ...


class JobSetNotFound(NotFound, code="JOB_SET_NOT_FOUND"): ...


class VideoJobNotFound(NotFound, code="VIDEO_JOB_NOT_FOUND"): ...


class VideoNotFound(NotFound, code="VIDEO_NOT_FOUND"):
    """The node does not exist, or does not have this video."""


class VideoRefused(Conflict, code="VIDEO_REFUSED"):
    """The node has this video, but does not open it."""


class StageNotFound(NotFound, code="STAGE_NOT_FOUND"): ...


class StageInUse(Conflict, code="STAGE_IN_USE"): ...


class JobEnded(Conflict, code="VIDEO_JOB_ENDED"): ...


class ClipNotFound(NotFound, code="CLIP_NOT_FOUND"):
    """Nothing is recorded of the time, or no longer."""


class RecordingUnavailable(Unavailable, code="RECORDING_UNAVAILABLE"):
    """The node with the recording cannot be reached, or cannot read it."""


class NoPicture(Unavailable, code="NO_PICTURE"):
    """The job has not drawn a picture yet, or its node cannot be reached."""


def as_refusal(error: Mapping[str, Any]) -> JsonObject:
    """An error in the format of the requirement's endpoints: on the web server, a node's agent and its stage host."""
    further = {name: error[name] for name in ("hint", "detail") if error.get(name)}
    return {"status": 1, "error": error["message"], "code": error["code"], **further}
