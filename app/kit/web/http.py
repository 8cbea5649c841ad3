"""Common code of all endpoints: reading a body or a query as a model, returning a model or an error."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs

import redis
from pydantic import BaseModel, ValidationError, model_validator
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from app.kit.errors import BadInput, BadRequest, ModelmillError, Unauthorized, Unavailable
from app.kit.text.json_values import JsonObject
from app.kit.text.pydantic_messages import own_sentence
from app.kit.web.downloads import RangeNotSatisfiable
from app.kit.web.request_body import read_whole_body
from app.kit.web.state import AppState
from app.kit.web.strict import TEXT
from app.kit.web.templates import render

Model = TypeVar("Model", bound=BaseModel)
MAX_JSON_BYTES = 1 << 20
MAX_FORM_BYTES = 1 << 20
RETRY_AFTER_S = 5
REQUEST_ID = "X-Request-ID"
"""Identifies a request in the logs: from the client or generated (request_log), and always returned."""
FIELDS_HINT = "What may be given here is described at /openapi.json."
logger = logging.getLogger(__name__)


async def json_body(request: Request, model: type[Model]) -> Model:
    """Parses the body as this model, whatever its Content-Type: curl -d claims a form.

    Raises:
        BadRequest: It is no valid JSON.
        BadInput: A field is wrong.
        TooLarge: It exceeds MAX_JSON_BYTES.
    """
    body = await read_whole_body(request, MAX_JSON_BYTES, "A JSON body", hint="Upload files at /uploads.")
    return checked(lambda: model.model_validate_json(body))


async def form(request: Request, model: type[Model]) -> Model:
    """Parses a url-encoded form as this model; repeated names become a list. Raises like json_body."""
    body = await read_whole_body(request, MAX_FORM_BYTES, "A form")
    fields: JsonObject = {}
    for name, values in parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True).items():
        fields[name] = values if len(values) > 1 else values[0]
    return checked(lambda: model.model_validate(fields))


def query(request: Request, model: type[Model]) -> Model:
    """Parses the query parameters as this model; repeated or unknown ones are refused, and so is NUL, which PostgreSQL
    cannot compare."""
    given = request.query_params
    repeated = [name for name, count in Counter(name for name, _ in given.multi_items()).items() if count > 1]
    if repeated:
        raise BadInput(f"{repeated[0]}: given more than once", hint=FIELDS_HINT)
    for name, value in given.items():
        if "\0" in value:
            problem = "a NUL character is not allowed"
            places = [{"at": name, "problem": problem}]
            raise BadInput(f"{name}: {problem}", hint=FIELDS_HINT, detail={"problems": places})
    return checked(lambda: model.model_validate(dict(given)))


class FilterForm(BaseModel):
    """Drops empty fields, which filter forms send for unused filters."""

    @model_validator(mode="before")
    @classmethod
    def _remove_empty(cls, given: JsonObject) -> JsonObject:
        return {name: value.strip() for name, value in given.items() if value.strip()}


def checked(validate: Callable[[], Model]) -> Model:
    """Returns what `validate` returns.

    Raises:
        BadRequest: pydantic says that it is not JSON.
        BadInput: pydantic says that it is invalid; detail: problems, a list of {at, problem}.
    """
    try:
        return validate()
    except ValidationError as error:
        problems = _without_miscounts(error.errors(include_url=False))
        if problems[0]["type"] == "json_invalid":
            raise BadRequest("The body is not JSON.", hint=problems[0]["msg"]) from None
        places = [{"at": ".".join(map(str, p["loc"])), "problem": _describe_problem(p)} for p in problems]
        first = places[0]
        message = f"{first['at']}: {first['problem']}" if first["at"] else str(first["problem"])
        raise BadInput(message, hint=FIELDS_HINT, detail={"problems": places}) from None


def _without_miscounts(problems: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Omits that a list is too short where only its invalid items, which pydantic does not count, make it so."""
    invalid = {problem["loc"][:depth] for problem in problems for depth in range(len(problem["loc"]))}
    return [
        problem
        for problem in problems
        if problem["type"] != "too_short"
        or problem["loc"] not in invalid
        or len(problem["input"]) < problem["ctx"]["min_length"]
    ]


def _describe_problem(problem: ErrorDetails) -> str:
    """Returns the sentence of pydantic, or of our own check; that about a pattern of ours would show the pattern."""
    is_text = problem.get("ctx", {}).get("pattern") == TEXT
    return "Input should be a line without control characters" if is_text else own_sentence(problem["msg"])


def wants_page(request: Request) -> bool:
    """Whether the client is a browser and not a program: always under /ui; elsewhere if it prefers HTML to JSON."""
    if request.url.path.startswith("/ui/"):
        return True
    accepted = [part.split(";")[0].strip() for part in request.headers.get("accept", "").lower().split(",")]
    if "text/html" not in accepted:
        return False
    return "application/json" not in accepted or accepted.index("text/html") < accepted.index("application/json")


def is_fragment(request: Request) -> bool:
    """Whether htmx requests a part of a page."""
    return request.headers.get("hx-request") == "true"


def answer_error(request: Request, error: ModelmillError) -> Response:
    """Returns the error as a page, as a fragment of one, or as JSON: whatever was requested."""
    headers = retry_after(error)
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.detail['size_bytes']}"
    return _build_answer(request, error.to_dict(), error.status, headers)


def answer_of(model: type[Model], *values: object, **more: Any) -> Model:
    """Creates a response model from the fields of values with the same names, and in turn the models it holds.

    Args:
        model: the model of the response.
        values: objects; if several have a name, the last one counts.
        more: the other fields, and those that differ.
    """
    named = {name: getattr(value, name) for value in values for name in model.model_fields if hasattr(value, name)}
    return model.model_validate({**named, **more}, from_attributes=True)


def json_answer(answer: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns the model as JSON: times and UUIDs as text."""
    return JSONResponse(answer.model_dump(mode="json"), status_code=status, headers=headers)


def retry_after(error: ModelmillError) -> dict[str, str]:
    """Returns a Retry-After header if a retry can help."""
    return {"Retry-After": str(error.detail.get("retry_after_s", RETRY_AFTER_S))} if error.can_retry else {}


def _build_answer(request: Request, error: JsonObject, status: int, headers: Mapping[str, str] | None) -> Response:
    response: Response
    if wants_page(request):
        template = "kit/_error.html" if is_fragment(request) else "kit/error.html"
        response = render(request, template, status, error=error, status=status)
        response.headers.update(headers or {})
    else:
        response = JSONResponse(_in_form(request, error), status_code=status, headers=headers)
    return response


ErrorForm = Callable[[Mapping[str, Any]], JsonObject]
Paths = re.Pattern[str]
error_forms_of = AppState[Mapping[Paths, ErrorForm]]("error_forms", dict)
"""Paths with their own error format."""


def _in_form(request: Request, error: JsonObject) -> JsonObject:
    forms = error_forms_of(request)
    return next((form(error) for paths, form in forms.items() if paths.fullmatch(request.url.path)), {"error": error})


async def on_modelmill_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ModelmillError)
    return answer_error(request, error)


async def on_redis_error(request: Request, error: Exception) -> Response:
    logger.warning("Redis: %s", error)
    return answer_error(request, Unavailable("Redis does not answer.", hint="Try again in a moment."))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Converts Starlette's own errors (no such route, wrong method, body too large) into our format."""
    assert isinstance(error, HTTPException)
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "TOO_LARGE"}.get(error.status_code, "BAD_REQUEST")
    body = {"code": code, "message": str(error.detail), "hint": "", "detail": {}, "can_retry": False}
    headers = {"Allow": _list_methods(request)} if error.status_code == 405 else error.headers
    return _build_answer(request, body, error.status_code, headers)


def _list_methods(request: Request) -> str:
    """Those of all routes of the path: Starlette names those of the first one."""
    routes = (r for r in request.app.routes if isinstance(r, Route) and r.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted(frozenset[str]().union(*(route.methods or () for route in routes))))


async def on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=499)  # nobody is there to read it


async def on_unforeseen(request: Request, _: Exception) -> Response:
    """An unexpected error. The server logs it with its traceback; the client learns that it is not at fault."""
    problem = ModelmillError("An internal error occurred.", hint="The server's log has the details.")
    response = answer_error(request, problem)
    response.headers.update(HEADERS)  # Starlette returns this one outside of its middleware
    if "request_id" in request.scope:
        response.headers[REQUEST_ID] = request.scope["request_id"]
    return response


EXCEPTION_HANDLERS: dict[Any, Any] = {
    ModelmillError: on_modelmill_error,
    redis.RedisError: on_redis_error,
    HTTPException: on_http_exception,
    ClientDisconnect: on_disconnect,
    Exception: on_unforeseen,
}


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
FILE_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Headers for user content: if a browser opens it, it runs no script and belongs to no origin of ours."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
