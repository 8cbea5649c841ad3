"""The endpoints of a job's recording: its state, and clips of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.described_type import DescribedType
from app.kit.web.http import answer_of, json_answer
from app.kit.web.operations import OpenApiSchema, Operations
from app.kit.web.strict import Moment, Strict
from app.results.producer_operations import PARAMETERS
from app.results.rule_endpoints import event_id_of
from app.video import schemas
from app.video.access import uid_of, video_of
from app.video.model.drawn_video import Recording
from app.video.responses import JOBS, describe_job
from app.video.service import Clip

_ONE = f"{JOBS}/{{job_uid}}"
_PATH: dict[str, OpenApiSchema] = {"job_uid": {"type": "string", "pattern": schemas.UID}, **PARAMETERS}
USUAL = timedelta(minutes=1)
MEDIA_TYPES = ("video/mp4", "video/webm")
HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox"}
OPERATIONS = Operations(_PATH)


class ClipQuery(Strict):
    """The time of a clip; at most ten minutes."""

    since: Moment | None = None
    """Start of the clip, with its offset from UTC, such as 2026-11-20T00:00:00Z; null: a minute before its end."""
    until: Moment | None = None
    """End of the clip; null: now."""


class RecordingChange(Strict):
    recording: Annotated[JsonObject, DescribedType(Recording)] | None
    """null: the job is no longer recorded, and what was recorded is deleted."""


class RecordingAnswer(BaseModel):
    begins_at: str | None
    """Time of the oldest picture; null: there is none yet."""
    ends_at: str | None
    """Time of the newest picture."""
    size_bytes: int
    core_share: float
    """Share of one core that drawing and encoding take."""
    problem: str
    """Why nothing is recorded now; empty: it is."""


@OPERATIONS.get(
    f"{_ONE}/recording",
    "Get the state of a job's recording: its time, size, cost and problem",
    RecordingAnswer,
    more_errors=(503,),
)
def video_recording(request: Request) -> Response:
    state = video_of(request).clips.state(user_of(request), uid_of(request), now=now())
    return json_answer(answer_of(RecordingAnswer, state))


@OPERATIONS.put(
    f"{_ONE}/recording", "Record a running job from now on, or no longer", schemas.JobAnswer, more_errors=(409,)
)
def record_video_job(request: Request, body: RecordingChange) -> Response:
    job = video_of(request).clips.record(user_of(request), uid_of(request), body.recording, now=now())
    return json_answer(describe_job(job))


@OPERATIONS.get(
    f"{_ONE}/clip", "Get a clip of a job's recording, with the detections drawn", MEDIA_TYPES, more_errors=(400, 503)
)
def video_clip(request: Request, params: ClipQuery) -> Response:
    until = params.until or now()
    since = params.since or until - USUAL
    return _answer_clip(video_of(request).clips.clip(user_of(request), uid_of(request), since, until, now=now()))


@OPERATIONS.get(
    f"{_ONE}/rule-events/{{event_id}}/clip",
    "Get the clip around an event, from 5 s before to 5 s after it",
    MEDIA_TYPES,
    more_errors=(503,),
)
def video_rule_event_clip(request: Request) -> Response:
    clips = video_of(request).clips
    return _answer_clip(clips.of_event(user_of(request), uid_of(request), event_id_of(request), now=now()))


def _answer_clip(clip: Clip) -> Response:
    return Response(clip.content, media_type=clip.media_type, headers=HEADERS)
