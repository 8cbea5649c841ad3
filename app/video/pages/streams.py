"""The streams that tell a page that something has changed; what, it then asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.redis.change_hub import ChangeHub, changed
from app.kit.web.auth import user_of
from app.kit.web.sse import hub_of
from app.video.access import video_of
from app.video.model.job import JobState

LIST = "video"
GAP_S = 0.5
"""Between two frames of a stream: a job reports more often than a page can show."""
LOOK_AGAIN_S = 10.0
SEND_TIMEOUT_S = 10
SHUTDOWN_GRACE_S = 2.0


async def list_events(request: Request) -> Response:
    """`changed` when any job did: also another user's, of which it tells nothing more."""
    return _stream(request, LIST)


async def job_events(request: Request) -> Response:
    """`changed` at each change of the job; one that has ended has no stream."""
    uid = request.path_params["uid"]
    found = await run_in_threadpool(video_of(request).jobs.get, user_of(request), uid)
    if found.state is JobState.DONE:
        return Response(status_code=204)
    return _stream(request, f"{LIST}:{uid}")


def _stream(request: Request, key: str) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    hub: Any = hub_of(request)
    return EventSourceResponse(
        frames(hub, key), send_timeout=SEND_TIMEOUT_S, shutdown_event=hub, shutdown_grace_period=SHUTDOWN_GRACE_S
    )


async def frames(hub: ChangeHub, key: str, *, gap_s: float = GAP_S) -> AsyncIterator[bytes]:
    """One at each change, until this process ends."""
    with hub.watch(key) as flag:
        while not hub.is_ending:
            if await changed(flag, LOOK_AGAIN_S) and not hub.is_ending:
                yield ServerSentEvent("{}", event="changed").encode()
                await asyncio.sleep(gap_s)


ROUTES = [
    Route("/ui/video/events", list_events),
    Route("/ui/video/{uid}/events", job_events),
]
