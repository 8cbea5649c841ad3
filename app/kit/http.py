"""What every endpoint does alike: read a JSON body, answer an error, stream a range of bytes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import redis
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.kit.errors import BadInput, BadRequest, ModelmillError, TooLarge, Unavailable

Model = TypeVar("Model", bound=BaseModel)
MAX_JSON_BYTES = 1 << 20
RETRY_AFTER_S = 5
logger = logging.getLogger(__name__)


class RangeNotSatisfiable(BadRequest):
    status = 416
    code = "RANGE_NOT_SATISFIABLE"


async def json_body(request: Request, model: type[Model]) -> Model:
    """The body as this model. Raises BadRequest for what is no JSON object, BadInput for wrong fields."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_JSON_BYTES:
            raise TooLarge(f"A JSON body may have {MAX_JSON_BYTES} bytes here.")
    return checked(lambda: model.model_validate_json(bytes(body)))


def query(request: Request, model: type[Model]) -> Model:
    """The query parameters as this model; a repeated or unknown one is refused."""
    return checked(lambda: model.model_validate(dict(request.query_params)))


def checked(validate: Callable[[], Model]) -> Model:
    try:
        return validate()
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        if problems[0]["type"] == "json_invalid":
            raise BadRequest("The body is not JSON.", hint=problems[0]["msg"]) from None
        places = [{"at": ".".join(map(str, p["loc"])), "problem": p["msg"]} for p in problems]
        first = places[0]
        message = f"{first['at']}: {first['problem']}" if first["at"] else str(first["problem"])
        raise BadInput(message, detail={"problems": places}) from None


def error_response(error: ModelmillError) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if error.can_retry else {}
    return JSONResponse({"error": error.to_dict()}, status_code=error.status, headers=headers)


async def on_modelmill_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ModelmillError)
    return error_response(error)


async def on_redis_error(_: Request, error: Exception) -> Response:
    logger.warning("Redis: %s", error)
    return error_response(Unavailable("Redis does not answer.", hint="Try again in a moment."))


async def on_http_exception(_: Request, error: Exception) -> Response:
    """Starlette's own errors (no such route, wrong method, body too large) in our form."""
    assert isinstance(error, HTTPException)
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "TOO_LARGE"}.get(error.status_code, "BAD_REQUEST")
    body = {"code": code, "message": str(error.detail), "hint": "", "detail": {}, "can_retry": False}
    return JSONResponse({"error": body}, status_code=error.status_code, headers=error.headers)


async def on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # nobody is there to read it


EXCEPTION_HANDLERS: dict[Any, Any] = {
    ModelmillError: on_modelmill_error,
    redis.RedisError: on_redis_error,
    HTTPException: on_http_exception,
    ClientDisconnect: on_disconnect,
}

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """The half-open range that a Range header asks for; None for the whole (no header, or a form we do not serve).

    Raises RangeNotSatisfiable when it lies outside.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < int(first):
            return None
    if start >= end:
        raise RangeNotSatisfiable(f"The object has {size} bytes; {header} lies outside.", detail={"size_bytes": size})
    return start, end


def stream_bytes(
    request: Request, read: Callable[[int, int], Iterator[bytes]], *, size: int, etag: str, name: str, media_type: str
) -> Response:
    """An object as a download, whole or the range that was asked for. read(start, end) yields the bytes."""
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": f'"{etag}"',
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "private, no-cache",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    wanted = byte_range(request.headers.get("range"), size)
    start, end = wanted or (0, size)
    headers["Content-Length"] = str(end - start)
    if wanted:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    if request.method == "HEAD":
        return Response(status_code=200, headers=headers, media_type=media_type)
    status = 206 if wanted else 200
    return StreamingResponse(read(start, end), status_code=status, headers=headers, media_type=media_type)
