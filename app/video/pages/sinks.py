"""The page of a job's sinks: where its rows and events go besides, and how that does."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import Problems
from app.kit.web.forms import sent_fields
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.model.job import JobState
from app.video.model.sink import Sink, SinkContent, SinkKind
from app.video.pages.job import job_of
from app.video.pages.job_list import url_of
from app.video.pages.new_form import text_of

MAX_BYTES = 10_000
EMPTY = {"kind": SinkKind.HTTP.value, "content": SinkContent.EVENTS.value, "address": ""}


def sinks(request: Request) -> Response:
    return _page(request, EMPTY)


async def add(request: Request) -> Response:
    sent = await sent_fields(request, most_bytes=MAX_BYTES, what="A sink")
    return await run_in_threadpool(_add, request, {name: sent.get(name, "").strip() for name in EMPTY})


def _add(request: Request, values: Mapping[str, str]) -> Response:
    job = job_of(request)
    add = partial(video_of(request).sinks.add, now=now())
    if values["kind"] not in list(SinkKind) or values["content"] not in list(SinkContent):
        return _page(request, {**EMPTY, "address": values["address"]}, status=422)
    try:
        kind, content = SinkKind(values["kind"]), SinkContent(values["content"])
        made = add(user_of(request), job.uid, kind, content, values["address"])
    except NotFound:
        raise
    except ModelmillError as error:
        return _page(request, values, {"address": text_of(error)}, status=error.status)
    return _page(request, EMPTY, made=made) if made.secret else see_other(f"{url_of(job.uid)}/sinks")


async def test(request: Request) -> Response:
    """Sends it a message, and shows whether it was taken."""
    sent = await sent_fields(request, most_bytes=MAX_BYTES, what="A sink")
    return await run_in_threadpool(_test, request, sent.get("sink_id", ""))


def _test(request: Request, sink_id: str) -> Response:
    uid = request.path_params["uid"]
    problem = video_of(request).sinks.test(user_of(request), uid, sink_id, now=now())
    return _page(request, EMPTY, tested=(sink_id, problem))


async def remove(request: Request) -> Response:
    sent = await sent_fields(request, most_bytes=MAX_BYTES, what="A sink")
    uid = request.path_params["uid"]
    await run_in_threadpool(video_of(request).sinks.remove, user_of(request), uid, sent.get("sink_id", ""))
    return see_other(f"{url_of(uid)}/sinks")


def _page(
    request: Request,
    values: Mapping[str, str],
    problems: Problems | None = None,
    *,
    made: Sink | None = None,
    tested: tuple[str, str] | None = None,
    status: int = 200,
) -> Response:
    job = job_of(request)
    return render(
        request,
        "video/sinks.html",
        status,
        area="video",
        job=job,
        url=url_of(job.uid),
        is_over=job.state is JobState.DONE,
        states=video_of(request).sinks.of(user_of(request), job.uid),
        values=values,
        problems=problems or {},
        made=made,
        tested=tested,
    )


ROUTES = [
    Route("/ui/video/{uid}/sinks", sinks),
    Route("/ui/video/{uid}/sinks", add, methods=["POST"]),
    Route("/ui/video/{uid}/sinks/test", test, methods=["POST"]),
    Route("/ui/video/{uid}/sinks/remove", remove, methods=["POST"]),
]
