"""/service/<name>: a stage called by a user, passed on to a node that serves it; and who serves what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.kit.clock import now
from app.kit.errors import NotFound, TooLarge, Unavailable
from app.kit.web.security_headers import FILE_POLICY
from app.video.access import require_user, video_of
from app.video.compat.stage_servers import Serving, keys_of, serving_now
from app.video.model.stage_call import MAX_BODY_BYTES

MAX_ANSWER_BYTES = 64 << 20
TIMEOUT = httpx.Timeout(60.0, connect=3.0)
PASSED_ON = ("content-type", "content-length", "accept")
NODE = "node"
PASSED_BACK = ("content-type", "retry-after")


class CallQuery(BaseModel):
    """Further parameters are the host's. node: it runs there, and nowhere else."""

    node: str = ""
    want: str = ""
    """Names of the outputs to be answered, as bbox,prob; empty: all."""


class StageNotServed(NotFound):
    """The requirement's `unregistered services`."""

    code = "STAGE_NOT_SERVED"


async def call(request: Request) -> Response:
    """Body and answer go through as they come; neither is held here beyond what the limit of a body allows."""
    require_user(request)
    stage, node = str(request.path_params["stage"]), request.query_params.get(NODE, "")
    hosts = [one for one in await _serving_stage(request, stage) if node in ("", one.host.node)]
    if not hosts:
        raise StageNotServed(f"The node {node[:64]!r} does not serve {stage}.", hint=f"See /get_execute_url/{stage}.")
    if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
        raise _too_large()
    return await _passed_on(request, stage, hosts)


async def get_service_list(request: Request) -> Response:
    return JSONResponse(sorted({stage for one in await _serving(request) for stage in one.stages}))


async def get_execute_url(request: Request) -> Response:
    """Of each node that serves it: where to call it there. That is passed on here, for nodes' own doors want their
    secret."""
    stage = str(request.path_params["stage"])
    found = await _serving_stage(request, stage)
    keys, url = keys_of(found), request.url.replace(path=f"/execute_task/{stage}", query="", fragment="")
    return JSONResponse(
        {
            keys[one.host.node]: {
                "node_role": one.host.role,
                "url": str(url.include_query_params(**{NODE: one.host.node})),
            }
            for one in found
        }
    )


async def get_resource_info(request: Request) -> Response:
    """{ip: {stage: {n_process, cpu_ratio, mem_ratio}}}"""
    found = await _serving(request)
    keys = keys_of(found)
    return JSONResponse({keys[one.host.node]: {stage: one.service() for stage in one.stages} for one in found})


async def get_cluster_info(request: Request) -> Response:
    """{ip: {node_role, n_cpu, cpu_ratio, mem, mem_ratio}}; mem in MiB, ratios of the whole node, 0..1."""
    found = await _serving(request)
    keys = keys_of(found)
    return JSONResponse({keys[one.host.node]: _cluster(one) for one in found})


def _cluster(one: Serving) -> dict[str, Any]:
    report = one.node.report
    return {
        "node": one.host.node,
        "node_role": one.host.role,
        "n_cpu": report.cores,
        "cpu_ratio": report.cpu,
        "mem": report.memory_bytes >> 20,
        "mem_ratio": report.memory,
        "accelerators": list(report.accelerators),
    }


async def _serving_stage(request: Request, stage: str) -> list[Serving]:
    """Raises StageNotServed."""
    found = [one for one in await _serving(request) if stage in one.stages]
    if not found:
        raise StageNotServed("unregistered services", hint=f"No node serves a stage {stage!r}: see /get_service_list.")
    return found


async def _serving(request: Request) -> list[Serving]:
    video, user = video_of(request), require_user(request)
    return await run_in_threadpool(serving_now, video.resources, video.catalogue, user, now())


async def _passed_on(request: Request, stage: str, hosts: Sequence[Serving]) -> Response:
    """To the first that can be reached. Of one that was reached and broke off nobody knows what it did: it is told."""
    body, kept = _Body(request), {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    params = httpx.QueryParams(str(request.query_params)).remove(NODE)
    async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as http:
        for one in hosts:
            headers, url = {**kept, "Authorization": f"Bearer {one.host.secret}"}, f"{one.host.url}/service/{stage}"
            asked = http.build_request("POST", url, content=body, headers=headers, params=params)
            try:
                answer = await http.send(asked, stream=True)
                content = await _whole(answer)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
            except httpx.HTTPError as error:
                raise Unavailable(f"The node {one.host.node!r} broke off: {error or type(error).__name__}.") from error
            if content is None:
                raise Unavailable(f"The node {one.host.node!r} answers with more than {MAX_ANSWER_BYTES} bytes.")
            back = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
            return Response(content, answer.status_code, {"Content-Security-Policy": FILE_POLICY, **back})
    raise Unavailable("No node that serves it can be reached.", hint="Try again in a moment.")


async def _whole(answer: httpx.Response) -> bytes | None:
    """The body, and None of one that is too long."""
    found = bytearray()
    try:
        async for chunk in answer.aiter_bytes():
            found += chunk
            if len(found) > MAX_ANSWER_BYTES:
                return None
    finally:
        await answer.aclose()
    return bytes(found)


class _Body:
    """The request's, as it comes. Raises TooLarge."""

    def __init__(self, request: Request) -> None:
        self.request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self.request.stream():
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise _too_large()
            yield chunk


def _too_large() -> TooLarge:
    return TooLarge(f"A call of a stage may have {MAX_BODY_BYTES} bytes here.", hint="Send a smaller picture.")
