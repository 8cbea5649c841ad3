"""The page of a job's recording: how far it goes back, and a clip of a time or of an event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field, field_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import from_text, now, to_text
from app.kit.errors import BadInput, ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.page_actions import with_fields
from app.kit.web.strict import Moment, Strict, empty_as_none
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.model.drawn_video import MAX_CLIP_S, Recording
from app.video.pages.actions import MAX_BYTES
from app.video.pages.job import job_of
from app.video.pages.job_list import url_of
from app.video.service import RecordingReport
from app.video.service.producers import producer_of_job


class PageQuery(Strict):
    """Of a time, or of an event."""

    since: Moment | None = None
    until: Moment | None = None
    event: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = None

    _empty_as_none = field_validator("since", "until", "event", mode="before")(empty_as_none)


def recording(request: Request) -> Response:
    job, clips, user, at = job_of(request), video_of(request).clips, user_of(request), now()
    criteria, problem = PageQuery(), ""
    try:
        criteria = query(request, PageQuery)
    except BadInput:
        problem = "no_time"
    state, absent = _read_state(lambda: clips.state(user, job.uid, now=at))
    since, until, source = criteria.since, criteria.until, ""
    place = producer_of_job(job).place
    is_there = False
    if criteria.event:
        since, until, is_kept = clips.event_span(user, job.uid, criteria.event)
        source = f"{place}/rule-events/{criteria.event}/clip"
        is_there = is_kept or _covers(state, to_text(since), to_text(until))
    elif since and until:
        if not 0 < (until - since).total_seconds() <= MAX_CLIP_S:
            problem = "too_long"
        else:
            source = f"{place}/clip?{urlencode({'since': to_text(since), 'until': to_text(until)})}"
            is_there = _covers(state, to_text(since), to_text(until))
    return render(
        request,
        "video/recording.html",
        422 if problem else 200,
        area="video",
        job=job,
        url=url_of(job.uid),
        limits=job.dag.recording,
        state=state,
        absent=absent,
        usual=Recording(24.0),
        problem=problem,
        since=to_text(since) if since else "",
        until=to_text(until) if until else "",
        newest=_find_newest_minute(state),
        event=criteria.event,
        source="" if problem else source,
        is_there=is_there,
    )


@with_fields(MAX_BYTES, "A recording")
def record(request: Request, sent: dict[str, str]) -> Response:
    """Without hours, the job is no longer recorded."""
    uid, hours = request.path_params["uid"], sent.get("hours", "")
    demand = {"hours": int(hours)} if hours.isdecimal() else None
    video_of(request).clips.record(user_of(request), uid, demand, now=now())
    return see_other(url_of(uid, "/recording"))


def _read_state(read: Callable[[], RecordingReport]) -> tuple[RecordingReport | None, ModelmillError | None]:
    try:
        return read(), None
    except ModelmillError as error:
        return None, error


def _find_newest_minute(state: RecordingReport | None) -> tuple[str, str]:
    if state is None or state.begins_at is None or state.ends_at is None:
        return "", ""
    return max(state.begins_at, to_text(from_text(state.ends_at) - timedelta(minutes=1))), state.ends_at


def _covers(state: RecordingReport | None, since: str, until: str) -> bool:
    """Whether something may be recorded of this time."""
    return bool(state and state.begins_at and state.ends_at and state.begins_at <= until and state.ends_at >= since)


ROUTES = [
    Route("/ui/video/{uid}/recording", recording),
    Route("/ui/video/{uid}/recording", record, methods=["POST"]),
]
