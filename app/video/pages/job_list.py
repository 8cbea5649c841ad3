"""The list of video jobs: filter, page through, watch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.list_page import ListQuery
from app.kit.web.live_fragment import fragment, version_of
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render
from app.video.access import video_of
from app.video.model.job import JobState
from app.video.pages import view_models

PAGE_JOBS = 30
CHANNEL = "video"
"""Of the changes of all jobs; those of one job are at video:{uid}."""
STATES = tuple(state.value for state in JobState)


class JobListQuery(ListQuery):
    PAGE: ClassVar[str] = "/ui/video"
    state: Literal["UNSCHED", "EXEC", "DONE"] | None = None
    note: Annotated[str, Field(max_length=20)] = ""


def jobs(request: Request) -> Response:
    context = _build_context(request)
    has_videos = bool(context["rows"]) or bool(context["videos"])
    return render(request, "video/jobs.html", area="video", states=STATES, has_videos=has_videos, **context)


def rows(request: Request) -> Response:
    """The table again. 204 when it is what the page shows already."""
    return fragment(request, "video/_jobs_live.html", _build_context(request))


def url_of(uid: str, further: str = "") -> str:
    return f"/ui/video/{quote(uid, safe='')}{further}"


def facts_of_videos(request: Request, at: datetime) -> dict[tuple[str, str], Mapping[str, str]]:
    """(node, id of its video) → what the node says of it."""
    nodes = video_of(request).resources.videos(user_of(request), at)
    return {(node.node, video): facts for node in nodes for video, facts in node.videos.items()}


def _build_context(request: Request) -> TemplateContext:
    filters = query(request, JobListQuery)
    page, older = video_of(request).jobs.page(
        user_of(request),
        state=JobState(filters.state) if filters.state else None,
        text=filters.q or "",
        cursor=filters.cursor,
        limit=PAGE_JOBS,
    )
    return {
        "filters": filters,
        "videos": facts_of_videos(request, now()),
        "rows": [(view_models.view_of(job), url_of(job.uid)) for job in page],
        "older": older,
        "seen": version_of([view_models.version_of(job) for job in page]),
    }


ROUTES = [
    Route("/ui/video", jobs),
    Route("/ui/video/rows", rows),
    Route("/ui/video/events", changes_of(CHANNEL)),
]
