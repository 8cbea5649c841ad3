"""What a runner serves: its live picture, to the web that passes it on, and whether it is well."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.edge.video.runner.preview import Live

MOST_VIEWERS = 20
FIRST_S = 5.0
AGAIN_S = 5.0
"""After so long without a newer picture the last is sent once more: a viewer sees that somebody is there."""
BOUNDARY = "frame"


def application(
    uid: str,
    secret: Callable[[], str],
    live: Live,
    *,
    is_ready: Callable[[], bool],
    health: Callable[[], Mapping[str, Any]],
) -> Starlette:
    """is_ready: is there anything to be drawn? health: what GET /healthz answers."""

    async def healthz(_: Request) -> Response:
        return JSONResponse(dict(health()))

    async def video(request: Request) -> Response:
        given, wanted = request.headers.get("authorization", ""), f"Bearer {secret()}"
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            return _refused("This needs the job's secret.", 401)
        if request.path_params["uid"] != uid:
            return _refused(f"This runner has no job {request.path_params['uid'][:100]}.", 404)
        if live.viewers >= MOST_VIEWERS:
            return _refused(f"There are {MOST_VIEWERS} viewers already.", 429)
        if not is_ready():
            return _refused("There is no picture yet.", 503)
        return StreamingResponse(_parts(live), media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    return Starlette(routes=[Route("/healthz", healthz), Route("/user/video/{uid}", video)])


async def _parts(live: Live) -> AsyncIterator[bytes]:
    """The newest picture, then each newer one; who is slow to take them misses those between."""
    live.viewers += 1
    try:
        live.on_viewer()
        number = -1
        shown = await live.newer_than(number, FIRST_S)
        while True:
            if shown is not None:
                number = shown.number
                yield _part(shown.jpeg)
            shown = await live.newer_than(number, AGAIN_S) or live.newest
    finally:
        live.viewers -= 1


def _part(jpeg: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg + b"\r\n"


def _refused(text: str, status: int) -> Response:
    return JSONResponse({"status": 1, "error": text}, status_code=status)
