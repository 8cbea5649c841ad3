"""The endpoints of sinks under /api/v2/video/jobs/{job_uid}, and OPERATIONS, their table of routes."""

from __future__ import annotations

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer, json_body
from app.kit.web.operations import Operations
from app.video import sink_schemas as schemas
from app.video.access import uid_of, video_of
from app.video.responses import JOBS, place_of
from app.video.schemas import UID

_SINKS = f"{JOBS}/{{job_uid}}/sinks"
OPERATIONS = Operations(
    {"sink_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"}, "job_uid": {"type": "string", "pattern": UID}}
)


@OPERATIONS.add("GET", _SINKS, "Where its rows and events go besides, and how that does", {200: schemas.SinksAnswer})
def list_sinks(request: Request) -> Response:
    states = video_of(request).sinks.of(user_of(request), uid_of(request))
    return json_answer(schemas.SinksAnswer(sinks=[schemas.sink_answer(state) for state in states]))


@OPERATIONS.add(
    "POST",
    _SINKS,
    "Send its rows or events somewhere else, too: HTTP, MQTT, Home Assistant, Redis or files",
    {201: schemas.NewSinkAnswer},
    more_errors=(403, 409, 429),
    body=schemas.SinkBody,
)
async def add_sink(request: Request) -> Response:
    body, uid = await json_body(request, schemas.SinkBody), uid_of(request)
    add = partial(video_of(request).sinks.add, now=now())
    sink = await run_in_threadpool(add, user_of(request), uid, body.kind, body.content, body.address)
    return json_answer(schemas.new_sink_answer(sink), 201, {"Location": f"{place_of(uid)}/sinks/{sink.sink_id}"})


@OPERATIONS.add(
    "POST",
    f"{_SINKS}/{{sink_id}}/test",
    "Send it a message of type modelmill.video.test, now",
    {200: schemas.SinkTestAnswer},
    more_errors=(429,),
)
def test_sink(request: Request) -> Response:
    test = partial(video_of(request).sinks.test, now=now())
    problem = test(user_of(request), uid_of(request), str(request.path_params["sink_id"]))
    return json_answer(schemas.SinkTestAnswer(is_taken=not problem, problem=problem))


@OPERATIONS.add("DELETE", f"{_SINKS}/{{sink_id}}", "Send nothing there any more", {204: None})
def remove_sink(request: Request) -> Response:
    video_of(request).sinks.remove(user_of(request), uid_of(request), str(request.path_params["sink_id"]))
    return Response(status_code=204)
