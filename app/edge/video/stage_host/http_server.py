"""The endpoints of the stage host: POST /service/<name>, and its state.

Errors have the requirement's format, {"status": 1, "error": text, "code": …}. A missing stage has the error text of the
original system: "unregistered services".
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.video.stage_host.host_metrics import HostMetrics
from app.edge.video.stage_host.pictures import PictureCache
from app.edge.video.stage_host.pool import StagePool, StageResult, StageTask
from app.edge.video.stage_host.served_stages import ServedStages, StageVariant
from app.edge.worker_server import HANDLERS, answered, check_bearer, with_refusals
from app.kit.errors import BadRequest, ModelmillError
from app.kit.network.addresses import is_asked_from_here
from app.kit.text.json_values import JsonObject
from app.kit.web.request_body import read_whole_body
from app.video.errors import StageNotFound, as_refusal
from app.video.model.kinds import StageKind, Type
from app.video.model.stage_call import MAX_BODY_BYTES, Call, from_text, unpack_call

PROBE_BYTES = 64 << 10
MAX_PROBE_BYTES = 1 << 20
OF_BROWSERS = ("origin", "sec-fetch-site", "referer")
HEALTH = "/healthz"
UNREGISTERED = "unregistered services"
IMAGE = "image"
OF_PICTURES = (Type.IMAGE, Type.CLIP)
logger = logging.getLogger(__name__)


class BearerGuard:
    """Callers show the secret, except programs on this machine. A browser does not count as such a program: a page from
    anywhere could make it call here."""

    def __init__(self, app: ASGIApp, secret: Callable[[], str]) -> None:
        self.app = app
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != HEALTH:
            request = Request(scope)
            if not is_asked_from_here(scope) or any(name in request.headers for name in OF_BROWSERS):
                try:
                    check_bearer(request.headers, self._secret(), hint="The jobs that this host serves know it.")
                except ModelmillError as error:
                    await refused(error)(scope, receive, send)
                    return
        await self.app(scope, receive, send)


@dataclass(eq=False, repr=False)
class StageServer:
    """The stages of a node behind HTTP.

    Args:
        pool: the processes that compute.
        pictures: kept for stages that come after.
        secret: that callers from other machines send.
        node: name of this one.
    """

    pool: StagePool
    pictures: PictureCache
    metrics: HostMetrics
    served: ServedStages
    """What is served now; the host replaces it."""
    secret: str
    node: str

    def application(self, lifespan: Any) -> Starlette:
        call, probe = with_refusals(self.call, refused), with_refusals(self.probe, refused)
        return Starlette(
            routes=[
                Route(HEALTH, self.health),
                Route("/service/{name}", call, methods=["POST"]),
                Route("/execute_task/{name}", call, methods=["POST"]),
                Route("/prepare/{name}", with_refusals(self.prepare, refused), methods=["POST"]),
                Route("/get_service_list", self.names),
                Route("/get_execute_url/{name}", with_refusals(self.url, refused)),
                Route("/get_resource_info", self.resources),
                Route("/get_cluster_info", self.cluster),
                Route("/probe", probe, methods=["GET", "POST"]),
            ],
            middleware=[Middleware(BearerGuard, secret=lambda: self.secret)],
            exception_handlers=HANDLERS,
            lifespan=lifespan,
        )

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": 0, "node": self.node, "n_process": self.pool.processes})

    async def names(self, _: Request) -> Response:
        return JSONResponse(self.served.names)

    async def url(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        self.served.key_of("", name)
        base = str(request.base_url).rstrip("/")
        return JSONResponse({self.node: {"url": f"{base}/execute_task/{name}"}})

    async def resources(self, _: Request) -> Response:
        return JSONResponse(self.metrics.detail())

    async def cluster(self, _: Request) -> Response:
        """This host and those it knows the way to."""
        return JSONResponse({self.node: self.metrics.resources(), **self.metrics.peers()})

    async def probe(self, request: Request) -> Response:
        """How fast is the way here (POST) and back (GET)?"""
        if request.method == "GET":
            return Response(bytes(PROBE_BYTES), media_type="application/octet-stream")
        body = await read_whole_body(request, MAX_PROBE_BYTES, "A probe")
        return JSONResponse({"status": 0, "bytes": len(body)})

    async def call(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        job = request.headers.get("x-job", "")
        key = self.served.key_of(job, name)
        self.pool.check(job, key)
        body = await read_whole_body(request, MAX_BODY_BYTES, "A call")
        began = time.perf_counter()
        call = unpack_call(name, body, request.headers, request.query_params)
        variant = self.served.variant(key, call.model_id)
        call = with_pictures(call, variant.kind)
        pictures = await self.pictures.of(call)
        decode_ms = _format_ms(time.perf_counter() - began)
        is_drawn = variant.kind.draws and (not call.want or IMAGE in call.want)
        clips = frozenset(name for name, type_ in variant.kind.inputs.items() if type_ is Type.CLIP)
        task = StageTask(call.job, variant, call.fields, pictures, clips, is_drawn)
        try:
            done = await _await_while_connected(request, self.pool.compute(task))
        except ModelmillError as error:
            _log(call, variant, status=error.status, ms=None)
            raise
        _log(call, variant, status=200, ms=_format_ms(done.server_s))
        return JSONResponse({**_write_outputs(call, done), **_describe(variant, done), "decode_ms": decode_ms})

    async def prepare(self, request: Request) -> Response:
        """Opens the stage with the model `model_id`, beside what is computed; answers when it is open."""
        key = self.served.key_of(request.headers.get("x-job", ""), str(request.path_params["name"]))
        model_id = request.query_params.get("model_id", "0")
        if not model_id.isdecimal() or len(model_id) > 3:
            raise BadRequest("model_id is to be a whole number.")
        variant = self.served.variant(key, int(model_id))
        await self.pool.prepare(variant)
        return JSONResponse({"status": 0, "model": variant.model})


def with_pictures(call: Call, kind: StageKind) -> Call:
    """Returns the call with pictures where the kind takes pictures, whatever their fields are named.

    Raises:
        BadRequest: A field is missing, has several pictures instead of one, or has a picture that the kind does not
            take; the error names it.
    """
    fields, pictures = dict(call.fields), dict(call.pictures)
    names = {name for name, type_ in kind.inputs.items() if type_ in OF_PICTURES}
    for name in names & fields.keys():
        value = fields.pop(name)
        pictures[name] = tuple(from_text(name, each) for each in (value if isinstance(value, list) else [value]))
    surplus = pictures.keys() - names
    if surplus:
        raise BadRequest(f"{kind.name} takes no picture {sorted(surplus)[0][:80]!r}.", hint=_takes(kind))
    for name, type_ in kind.inputs.items():
        count = len(pictures.get(name, ())) if name in names else int(name in fields)
        if count == 0 and name not in kind.optional:
            raise BadRequest(f"The field {name} of {kind.name} is missing.", hint=_takes(kind))
        if count > 1 and type_ is Type.IMAGE:
            raise BadRequest(f"The field {name} of {kind.name} is one picture, not {count}.")
    inputs = {name: value for name, value in fields.items() if name in kind.inputs}
    return Call(call.stage, call.model_id, inputs, pictures, call.job, call.frame, call.want)


def refused(error: ModelmillError) -> Response:
    body = as_refusal(error.to_dict())
    if isinstance(error, StageNotFound):
        body |= {"error": UNREGISTERED, "hint": error.message}
    response = answered(error)
    return JSONResponse(
        body,
        error.status,
        {name: value for name, value in response.headers.items() if name in ("www-authenticate", "retry-after")},
    )


async def _await_while_connected(request: Request, computing: Coroutine[Any, Any, StageResult]) -> StageResult:
    """Returns the result of `computing`; if the caller, whose body has been read, leaves, it is canceled."""
    computed, gone = asyncio.create_task(computing), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({computed, gone}, return_when=asyncio.FIRST_COMPLETED)
        if computed.done():
            return computed.result()
        raise ClientDisconnect
    finally:
        computed.cancel()
        gone.cancel()


def _write_outputs(call: Call, done: StageResult) -> JsonObject:
    outputs = {**done.outputs, **({IMAGE: base64.b64encode(done.image).decode()} if done.image else {})}
    return {name: value for name, value in outputs.items() if not call.want or name in call.want}


def _describe(variant: StageVariant, done: StageResult) -> JsonObject:
    return {
        "server_ms": _format_ms(done.server_s),
        "queue_ms": _format_ms(done.queue_s),
        "model": variant.model,
        "runtime": done.runtime,
        "stage": variant.key,
    }


def _log(call: Call, variant: StageVariant, *, status: int, ms: float | None) -> None:
    logger.info(
        "Stage called",
        extra={
            "stage": variant.key,
            "job": call.job or None,
            "frame": call.frame or None,
            "model_id": call.model_id,
            "model": variant.model,
            "sha256": " + ".join(card.sha256[:12] for card in variant.cards),
            "status": status,
            "ms": ms,
        },
    )


def _format_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _takes(kind: StageKind) -> str:
    named: Mapping[str, Type] = kind.inputs
    return "It takes " + ", ".join(f"{name} ({type_})" for name, type_ in named.items()) + "."
