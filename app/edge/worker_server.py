"""Shared code of the servers of a node's workers: errors as JSON, a clean end on SIGTERM."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from app.kit.errors import BadRequest, ModelmillError, Unauthorized
from app.kit.network.bearer import has_bearer
from app.kit.network.keep_alive import KEEP_ALIVE_S
from app.kit.network.tls import Credentials
from app.kit.observability.logs import Format, Level, configure
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object
from app.kit.web.multipart import Part

Endpoint = Callable[[Request], Awaitable[Response]]
STOP_S = 2
BACKLOG = 128
HINT = "Send multipart/form-data with a part picture, as curl -F picture=@file.jpg does."


def json_of(part: Part | None, name: str) -> JsonObject:
    """Returns the JSON object in a part; {} for a missing part.

    Raises:
        BadRequest: It is not an object.
    """
    if part is None:
        return {}
    try:
        return read_object(part.data)
    except UnreadableJson:
        raise BadRequest(f"The part {name} must be a JSON object.") from None


def check_bearer(headers: Headers, secret: str, *, hint: str = "") -> None:
    """Checks the secret. A server without a secret admits nobody.

    Raises:
        Unauthorized: The header does not have it.
    """
    if not has_bearer(headers, secret):
        raise Unauthorized("The secret of this service is wanted.", hint=hint)


def answered(error: ModelmillError) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthorized) else {}
    if error.can_retry:
        headers["Retry-After"] = "1"
    return JSONResponse({"error": error.to_dict()}, status_code=error.status, headers=headers)


def with_refusals(endpoint: Endpoint, refusal: Callable[[ModelmillError], Response] = answered) -> Endpoint:
    """Returns the endpoint with errors as responses, whatever server it belongs to."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ModelmillError as error:
            return refusal(error)

    return answer


async def on_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ModelmillError)
    return answered(error)


async def on_http_exception(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.status_code, "BAD_REQUEST")
    body = {"code": code, "message": str(error.detail), "hint": "", "detail": {}, "can_retry": False}
    return JSONResponse({"error": body}, status_code=error.status_code, headers=error.headers)


async def on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # nobody is there to read it


async def on_unforeseen(_: Request, __: Exception) -> Response:
    return answered(ModelmillError("Something broke in this worker.", hint="Its log says what."))


FORMATS: tuple[Format, ...] = get_args(Format)
LEVELS: tuple[Level, ...] = get_args(Level)
HANDLERS: dict[Any, Any] = {
    ModelmillError: on_error,
    HTTPException: on_http_exception,
    ClientDisconnect: on_disconnect,
    Exception: on_unforeseen,
}


def log_as(environment: Mapping[str, str]) -> tuple[Format, Level]:
    """Returns format and level of the log, like those of the agent; unknown values are ignored."""
    form, level = (environment.get(f"MODELMILL_LOG_{name}", "").lower() for name in ("FORMAT", "LEVEL"))
    return (
        next((name for name in FORMATS if name == form), "auto"),
        next((name for name in LEVELS if name == level), "info"),
    )


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket for `serve`: clients that connect from now on wait until it serves.

    Raises:
        SystemExit: The port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise SystemExit(f"{host}:{port} cannot be listened on.") from error


def serve(
    app: Starlette,
    *,
    host: str,
    port: int,
    lifespan: bool = False,
    listening: socket.socket | None = None,
    tls: Credentials | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, and return.

    Args:
        app: what to serve.
        host: the address to listen on.
        port: the port to listen on.
        lifespan: whether the application has lifespan handlers.
        listening: the socket, if it already listens.
        tls: of this node, to accept encrypted connections only.
    """
    configure(*log_as(os.environ))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _is_over)  # uvicorn restores these and raises the signal again
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_S,
        lifespan="on" if lifespan else "off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    if tls is not None:
        config.load()
        config.ssl = tls.server
    server = uvicorn.Server(config)
    server.run(sockets=[listening] if listening else None)
    if not server.started:
        raise SystemExit(f"{host}:{port} cannot be listened on.")


def _is_over(*_: object) -> None:
    pass
