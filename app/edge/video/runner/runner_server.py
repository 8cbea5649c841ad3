"""The server of a runner, for the web server and the agent: the live picture, and clips of the recording."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.edge.video.runner.preview import PreviewStream
from app.edge.video.runner.recorder import Recorder, SwitchableRecorder
from app.kit.network.bearer import has_bearer
from app.video.model.drawn_video import MAX_CLIP_S

MOST_VIEWERS = 20
FIRST_S = 5.0
AGAIN_S = 5.0
"""Seconds without a newer picture after which the last one is sent again: a viewer sees that the job is alive."""
BOUNDARY = "frame"
Endpoint = Callable[[Request], Awaitable[Response]]


def application(
    uid: str,
    secret: Callable[[], str],
    live: PreviewStream,
    *,
    is_ready: Callable[[], bool],
    health: Callable[[], Mapping[str, Any]],
    recording: SwitchableRecorder | None = None,
) -> Starlette:
    """Creates the ASGI application of a runner.

    Args:
        uid: the id of its job.
        secret: returns the current bearer token of viewers.
        live: the job's pictures.
        is_ready: returns whether there is anything to draw.
        health: returns the answer to GET /healthz.
        recording: of the job; None: it is never recorded.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse(dict(health()))

    async def video(_: Request) -> Response:
        if live.viewers >= MOST_VIEWERS:
            return _refuse(f"There are {MOST_VIEWERS} viewers already.", 429)
        if not is_ready():
            return _refuse("There is no picture yet.", 503)
        return StreamingResponse(_stream_parts(live), media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    async def state_of_recording(_: Request) -> Response:
        state = await run_in_threadpool(recorder.state) if (recorder := recording and recording.recorder) else None
        return JSONResponse(state.to_json()) if state else _refuse("This job is not recorded.", 404)

    async def clip(request: Request) -> Response:
        recorder = recording and recording.recorder
        return await _answer_clip(recorder, request) if recorder else _refuse("This job is not recorded.", 404)

    place = "/user/video/{uid}"
    endpoints = {place: video, f"{place}/recording": state_of_recording, f"{place}/clip": clip}
    routes = [Route(path, _require_secret(endpoint, uid, secret)) for path, endpoint in endpoints.items()]
    return Starlette(routes=[Route("/healthz", healthz), *routes])


def _require_secret(endpoint: Endpoint, uid: str, secret: Callable[[], str]) -> Endpoint:
    async def answer(request: Request) -> Response:
        if not has_bearer(request.headers, secret()):
            return _refuse("This needs the job's secret.", 401)
        if request.path_params["uid"] != uid:
            return _refuse(f"This runner has no job {request.path_params['uid'][:100]}.", 404)
        return await endpoint(request)

    return answer


async def _answer_clip(recorder: Recorder, request: Request) -> Response:
    """Of the time from begins_s to ends_s, seconds since 1970."""
    begins_s, ends_s = (_read_seconds(request, name) for name in ("begins_s", "ends_s"))
    if not 0 < ends_s - begins_s <= MAX_CLIP_S:
        return _refuse(f"The end of a clip is at most {MAX_CLIP_S:g} s after its start.", 400)
    try:
        content, media_type = await run_in_threadpool(recorder.clip, begins_s, ends_s)
    except RuntimeError as error:
        return _refuse(str(error), 500)
    return Response(content, media_type=media_type) if content else _refuse("Nothing is recorded of it.", 404)


def _read_seconds(request: Request, name: str) -> float:
    """NaN if it is no number."""
    try:
        return float(request.query_params.get(name, ""))
    except ValueError:
        return math.nan


async def _stream_parts(live: PreviewStream) -> AsyncIterator[bytes]:
    """Yields the newest picture, then each newer one; a slow viewer misses some."""
    live.add_viewer()
    try:
        number = -1
        picture = await live.newer_than(number, FIRST_S)
        while True:
            if picture is not None:
                number = picture.number
                yield _make_part(picture.jpeg)
            picture = await live.newer_than(number, AGAIN_S) or live.newest
    finally:
        live.viewers -= 1


def _make_part(jpeg: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg + b"\r\n"


def _refuse(text: str, status: int) -> Response:
    return JSONResponse({"status": 1, "error": text}, status_code=status)
