"""The agent's own endpoints for video: reports from runners and the stage host, and requests of users to this node.
Responses have the requirement's format: {"status": 0}, or {"status": 1, "error": text}."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from urllib.parse import quote

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.edge.agent.driver import Agent
from app.edge.worker_server import Endpoint, with_refusals
from app.kit.cli.command import Unreachable
from app.kit.errors import BadRequest, ModelmillError, NotFound, Unavailable
from app.kit.web.request_body import read_whole_body
from app.nodes import wire
from app.nodes.model import Order
from app.video.errors import NoPicture, VideoJobNotFound, as_refusal
from app.video.model.job import JOBS, SERVICES

MAX_JSON_BYTES = 1 << 20
MAX_DETAIL_BYTES = 64 << 10
MAX_PICTURE_BYTES = 2 << 20
MAX_UID = 64
JPEG_BEGINS = b"\xff\xd8\xff"
JSON = "application/json"
RUNNER_TIMEOUT = httpx.Timeout(connect=2, read=30, write=5, pool=5)
OK = {"status": 0}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunnerAddress:
    """Where a job's process serves its live picture."""

    url: str
    secret: str
    """Its bearer token."""


FindRunner = Callable[[str], RunnerAddress | None]
"""By a job's uid."""


class NoServices(NotFound, code="SERVICES_NOT_FOUND"):
    """This node was not told to serve stages."""


class WebAway(Unavailable, status=502, code="WEB_AWAY"): ...


def services_name(node: str) -> str:
    """Of the worker that serves a node's stages."""
    return f"services-{node}"


def of_jobs(agent: Agent, runner: FindRunner) -> list[BaseRoute]:
    endpoints = JobEndpoints(agent, runner)
    return [
        _post("/node/get_plan", endpoints.get_plan),
        _post("/node/sync_job_result", endpoints.sync_job_result),
        _post("/node/update_plan", endpoints.passed_on),
        _post("/node/submit_job", endpoints.passed_on),
        _post("/video/{uid}/picture", endpoints.picture),
        Route("/user/video/{uid}", with_refusals(endpoints.live, _refuse)),
    ]


def of_services(agent: Agent) -> list[BaseRoute]:
    async def info(request: Request) -> Response:
        """The host of the stages says how it is."""
        detail = wire.read(await read_whole_body(request, MAX_DETAIL_BYTES, "A detail")).get("detail")
        if not isinstance(detail, dict):
            raise BadRequest("detail is to be an object.")
        order = agent.owner_of(SERVICES, services_name(agent.node))
        if order is None:
            raise NoServices("This node serves no stages.")
        agent.note_status(order.key, is_running=True, detail=detail)
        return JSONResponse(OK)

    return [_post("/video/services/info", info)]


class JobEndpoints:
    def __init__(self, agent: Agent, runner: FindRunner) -> None:
        self.agent = agent
        self.runner = runner

    async def get_plan(self, request: Request) -> Response:
        """Of demands that the web has not heard yet only the newest counts."""
        body, uid = await self._of_job(request)
        self.agent.send("/node/get_plan", body, JSON, replaces=f"plan:{uid}")
        return JSONResponse(OK)

    async def sync_job_result(self, request: Request) -> Response:
        body, uid = await self._of_job(request)
        self.agent.send("/node/sync_job_result", body, JSON, rows_of=uid)
        return JSONResponse(OK)

    async def picture(self, request: Request) -> Response:
        """Of pictures that the web has not got yet only the newest counts."""
        uid = str(request.path_params["uid"])
        self._order(uid)
        picture = await read_whole_body(request, MAX_PICTURE_BYTES, "A picture")
        if not picture.startswith(JPEG_BEGINS):
            raise BadRequest("The body is to be a JPEG.")
        self.agent.send(f"/node/video/{quote(uid)}/picture", picture, "image/jpeg", replaces=f"picture:{uid}")
        return JSONResponse(OK)

    async def passed_on(self, request: Request) -> Response:
        """A job, or a plan by hand. The web decides, which alone gives out numbers of jobs and plans; so it is asked at
        once, in the name of who asks here."""
        body = await read_whole_body(request, MAX_JSON_BYTES, "A body")
        wire.read(body)
        authorization = request.headers.get("authorization", "")
        try:
            reply = await self.agent.ask(request.url.path, body, JSON, authorization=authorization)
        except Unreachable as error:
            raise WebAway(error.message, hint="This is the web's to decide: ask again when it is there.") from error
        return Response(reply.body, reply.status, media_type=reply.content_type or None)

    async def live(self, request: Request) -> Response:
        """The job's MJPEG, as its runner serves it, for as long as the viewer stays."""
        uid = str(request.path_params["uid"])
        self._order(uid)
        runner = self.runner(uid)
        if runner is None:
            raise NoPicture("The job has not begun yet.")
        client = httpx.AsyncClient(timeout=RUNNER_TIMEOUT, trust_env=False)
        try:
            live_request = client.build_request(
                "GET", f"{runner.url}/user/video/{quote(uid)}", headers={"Authorization": f"Bearer {runner.secret}"}
            )
            answer = await client.send(live_request, stream=True)
        except httpx.HTTPError as error:
            await client.aclose()
            raise NoPicture(f"The job's process does not answer: {error or type(error).__name__}") from error
        except BaseException:  # the viewer has gone
            await client.aclose()
            raise
        return StreamingResponse(
            _stream_parts(client, answer),
            answer.status_code,
            media_type=answer.headers.get("content-type"),
            headers={"Cache-Control": "no-store"},
        )

    async def _of_job(self, request: Request) -> tuple[bytes, str]:
        """A JSON object of a job that this node runs, and the job's uid."""
        body = await read_whole_body(request, MAX_JSON_BYTES, "A body")
        uid = wire.read(body).get("job_uid")
        if not isinstance(uid, str):
            raise BadRequest("job_uid is to be a text.")
        self._order(uid)
        return body, uid

    def _order(self, uid: str) -> Order:
        order = self.agent.owner_of(JOBS, uid)
        if order is None:
            raise VideoJobNotFound(f"This node runs no job {uid[:MAX_UID]!r}.")
        return order


async def _stream_parts(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    except httpx.HTTPError as error:
        logger.debug("A live picture ended: %s", error)
    finally:
        await answer.aclose()
        await client.aclose()


def _post(path: str, endpoint: Endpoint) -> Route:
    return Route(path, with_refusals(endpoint, _refuse), methods=["POST"])


def _refuse(error: ModelmillError) -> Response:
    return JSONResponse(as_refusal(error.to_dict()), status_code=error.status)
