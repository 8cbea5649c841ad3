"""The page of one video job, the fragment that keeps it current, and its newest snapshot."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.errors import NoPicture
from app.video.model.job import JobState, VideoJob
from app.video.pages import dag_drawing, plots, view_models
from app.video.pages.job_list import facts_of_videos, url_of
from app.video.scheduling.registry import policies

SHOWN_EVENTS = 50
SHOWN_DECISIONS = 40
READ_DECISIONS = 300
REDRAWN_S = 10
"""So often the fragment is drawn anew though nothing was reported: the node may have become silent."""
NO_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 90"><rect width="160" height="90" fill="#87918a" '
    'fill-opacity=".18"/><path d="M66 31v28l26-14z" fill="#87918a" fill-opacity=".6"/></svg>'
)


def job(request: Request) -> Response:
    found = job_of(request)
    return render(
        request,
        "video/job.html",
        area="video",
        note=request.query_params.get("note", ""),
        dag_text=json.dumps(found.dag.to_json(), indent=2, ensure_ascii=False),
        **body_of(request, found, now()),
    )


def live(request: Request) -> Response:
    """What changes by itself. 204 when that is what the page shows already (`seen`)."""
    try:
        found = job_of(request)
    except NotFound:
        return Response(status_code=200, headers={"HX-Refresh": "true"})  # the page then says that it is gone
    context = body_of(request, found, now())
    if request.query_params.get("seen", "") == context["seen"]:
        return Response(status_code=204)
    return render(request, "video/_job_live.html", **context)


def snapshot(request: Request) -> Response:
    """The newest picture that came without being watched; a blank one while there is none."""
    headers = {"Cache-Control": "private, no-cache", "Content-Security-Policy": "default-src 'none'; sandbox"}
    try:
        picture = video_of(request).pictures.snapshot(user_of(request), request.path_params["uid"])
    except NoPicture:
        return Response(NO_PICTURE, media_type="image/svg+xml", headers=headers)
    return Response(picture, media_type="image/jpeg", headers=headers)


def job_of(request: Request) -> VideoJob:
    """Raises VideoJobNotFound."""
    return video_of(request).jobs.get(user_of(request), request.path_params["uid"])


def body_of(request: Request, found: VideoJob, at: datetime) -> dict[str, Any]:
    video, user = video_of(request), user_of(request)
    view = view_models.view_of(found)
    series = video.reports.series(found.uid)
    events = video.jobs.events(user, found.uid)[::-1][:SHOWN_EVENTS]
    log = video.jobs.decisions(user, found.uid, limit=READ_DECISIONS)
    decisions = view_models.decisions_of(log)[:SHOWN_DECISIONS]
    is_live = found.state is not JobState.DONE and not view.measures and _is_live(request, found, at)
    return {
        "view": view,
        "job": found,
        "videos": facts_of_videos(request, at),
        "url": url_of(found.uid),
        "is_live": is_live,
        "drawing": drawing_of(found, view),
        "delays": plots.delay_plot(series),
        "rates": plots.fps_plot(series),
        "qualities": plots.quality_plot(series),
        "decisions": decisions,
        "events": events,
        "policies": policies(),
        "problems": {},
        "values": control_values(view),
        "saved": "",
        "seen": _version(found, series[-1].at if series else "", len(events), decisions, is_live, at),
    }


def drawing_of(found: VideoJob, view: view_models.View) -> dag_drawing.Drawing:
    notes = {place.stage: place.node or place.ip for place in view.placed}
    notes[found.dag.generator] = found.node
    return dag_drawing.draw(found.dag, {place.stage: place.lane for place in view.placed}, notes)


def control_values(view: view_models.View) -> dict[str, str]:
    """What the forms of the constraint and the policy hold."""
    wanted = view.job.constraint
    return {
        "delay_lo": f"{wanted.lo:g}" if wanted.lo >= 0 else "",
        "delay_hi": f"{wanted.hi:g}",
        "acc_level": str(view.level),
        "policy": view.job.policy,
    }


def _is_live(request: Request, found: VideoJob, at: datetime) -> bool:
    try:
        return video_of(request).pictures.live(user_of(request), found.uid, now=at) is not None
    except ModelmillError:
        return False


def _version(
    found: VideoJob, newest: str, events: int, decisions: list[view_models.DecisionView], is_live: bool, at: datetime
) -> str:
    """Names what is shown: equal while nothing would look different."""
    drawn = 0 if found.state is JobState.DONE else int(at.timestamp() // REDRAWN_S)
    decided = (decisions[0].decided.at, decisions[0].decided.seq) if decisions else ()
    what = (view_models.version_of(found), newest, events, len(decisions), decided, is_live, drawn)
    return sha256(repr(what).encode()).hexdigest()[:12]


ROUTES = [
    Route("/ui/video/{uid}", job),
    Route("/ui/video/{uid}/live", live),
    Route("/ui/video/{uid}/snapshot", snapshot),
]
