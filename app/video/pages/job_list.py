"""The list of video jobs: filter, page through, watch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import FilterForm, query
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.model.job import JobState
from app.video.pages import view_models

PAGE_JOBS = 30
STATES = tuple(state.value for state in JobState)


class ListQuery(FilterForm):
    """seen: what the page shows already, for the fragment that keeps it current."""

    q: Annotated[str, Field(max_length=200)] | None = None
    state: Literal["UNSCHED", "EXEC", "DONE"] | None = None
    cursor: Annotated[str, Field(max_length=120)] | None = None
    seen: Annotated[str, Field(max_length=64)] = ""
    note: Annotated[str, Field(max_length=20)] = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.q or self.state)

    def url(self, page: str = "/ui/video", **further: str | None) -> str:
        kept = {"q": self.q, "state": self.state, **further}
        return f"{page}?" + urlencode({name: value for name, value in kept.items() if value})


def jobs(request: Request) -> Response:
    asked = query(request, ListQuery)
    context = _rows(request, asked)
    has_videos = bool(context["rows"]) or bool(context["videos"])
    return render(request, "video/jobs.html", area="video", states=STATES, has_videos=has_videos, **context)


def rows(request: Request) -> Response:
    """The table anew. 204 when it is what the page shows already."""
    asked = query(request, ListQuery)
    context = _rows(request, asked)
    if asked.seen == context["seen"]:
        return Response(status_code=204)
    return render(request, "video/_jobs_live.html", **context)


def url_of(uid: str, further: str = "") -> str:
    return f"/ui/video/{quote(uid, safe='')}{further}"


def facts_of_videos(request: Request, at: datetime) -> dict[tuple[str, str], Mapping[str, str]]:
    """(node, id of its video) → what the node says of it."""
    nodes = video_of(request).resources.videos(user_of(request), at)
    return {(node.node, video): facts for node in nodes for video, facts in node.videos.items()}


def _rows(request: Request, asked: ListQuery) -> dict[str, Any]:
    found, older = video_of(request).jobs.page(
        user_of(request),
        state=JobState(asked.state) if asked.state else None,
        text=asked.q or "",
        cursor=asked.cursor,
        limit=PAGE_JOBS,
    )
    versions = "\n".join(view_models.version_of(job) for job in found)
    return {
        "asked": asked,
        "videos": facts_of_videos(request, now()),
        "rows": [(view_models.view_of(job), url_of(job.uid)) for job in found],
        "older": older,
        "seen": sha256(versions.encode()).hexdigest()[:12],
    }


ROUTES = [
    Route("/ui/video", jobs),
    Route("/ui/video/rows", rows),
]
