"""Describes an endpoint of the API: its route and its entry in the OpenAPI document are generated from that."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal, Protocol, TypedDict, TypeGuard, TypeVar, Unpack

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web import idempotency

PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
"""A parameter of a path, with its kind."""
USERS, NODES = ("token", "session"), ("node",)
"""Who may call it."""
Answer = type[BaseModel] | tuple[str, ...] | None
Answers = Answer | dict[int, Answer]
NO_CONTENT: Answers = {204: None}
OpenApiSchema = dict[str, Any]
"""A JSON schema, or another object of the OpenAPI document."""
Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """One endpoint: its route and its description."""

    method: Method
    path: str
    endpoint: Any
    summary: str
    answers: dict[int, Answer]
    """Status → model, or the media types of a response without a model, or None for no body."""
    errors: tuple[int, ...] = ()
    """Error statuses."""
    body: type[BaseModel] | OpenApiSchema | None = None
    """Model of a JSON body, or a request body object, in which a model may stand for a schema."""
    query: type[BaseModel] | None = None
    parameters: dict[str, OpenApiSchema] = field(default_factory=dict)
    """Schemas of path parameters; default: any string."""
    sent_headers: dict[str, OpenApiSchema] = field(default_factory=dict)
    """Schemas of request headers that it reads; none is required."""
    headers: dict[str, str] = field(default_factory=dict)
    """Response headers of successful responses, name → description."""
    version_fields: tuple[str, ...] = ()
    """Of a GET: the fields of its answer that its ETag is a hash of, nested ones with a dot; default: all."""
    creates_later: bool = False
    """Its response is 202: the created object does not exist yet."""
    callers: tuple[str, ...] = USERS
    """Names of SECURITY, any of which suffices; none: public, without a token."""

    @property
    def described_path(self) -> str:
        """The path in OpenAPI's form: without the kinds of its parameters."""
        return PARAMETER.sub(r"{\1}", self.path)

    @property
    def is_once(self) -> bool:
        """Whether the kit executes it once per Idempotency-Key, which applies to operations that create something."""
        creates = self.creates_later or 201 in self.answers
        return self.method == "POST" and creates and idempotency.HEADER not in self.sent_headers

    def route(self) -> Route:
        endpoint = idempotency.once(self.endpoint) if self.is_once else self.endpoint
        return Route(self.path, endpoint, methods=[self.method], name=self.endpoint.__name__)


class Options(TypedDict, total=False):
    """What else is declared of an endpoint; see also the fields of `Operation`."""

    errors: tuple[int, ...]
    """All error statuses; default: those of its kind."""
    more_errors: tuple[int, ...]
    """Statuses in addition to those of its kind."""
    body: type[BaseModel] | OpenApiSchema
    """What an endpoint without a parameter `body` reads."""
    query: type[BaseModel]
    """What an endpoint without a parameter `params` reads."""
    guard: Callable[[Request], object]
    """Refuses callers, before anything that they sent is read."""
    sent_headers: dict[str, OpenApiSchema]
    headers: dict[str, str]
    version_fields: tuple[str, ...]
    creates_later: bool
    callers: tuple[str, ...]


class Declaration(Protocol):
    """A decorator that declares an endpoint, and returns it as it is."""

    def __call__(self, endpoint: Endpoint, /) -> Endpoint: ...


class Operations(list[Operation]):
    """The operations of a module, in the order of its endpoints; each is declared above its endpoint.

    Args:
        parameters: schemas of all path parameters.
    """

    def __init__(self, parameters: Mapping[str, OpenApiSchema] | None = None) -> None:
        super().__init__()
        self._parameters = parameters or {}

    def get(self, path: str, summary: str, answers: Answers, **options: Unpack[Options]) -> Declaration:
        """See `add`, as for the other methods."""
        return self.add("GET", path, summary, answers, **options)

    def post(self, path: str, summary: str, answers: Answers, **options: Unpack[Options]) -> Declaration:
        return self.add("POST", path, summary, answers, **options)

    def put(self, path: str, summary: str, answers: Answers, **options: Unpack[Options]) -> Declaration:
        return self.add("PUT", path, summary, answers, **options)

    def patch(self, path: str, summary: str, answers: Answers, **options: Unpack[Options]) -> Declaration:
        return self.add("PATCH", path, summary, answers, **options)

    def delete(self, path: str, summary: str, answers: Answers = NO_CONTENT, **options: Unpack[Options]) -> Declaration:
        return self.add("DELETE", path, summary, answers, **options)

    def add(self, method: Method, path: str, summary: str, answers: Answers, **options: Unpack[Options]) -> Declaration:
        """The decorator of an endpoint.

        An endpoint `def change(request, job_id, body: Change, params: Query)` gets the parameters of the path by name,
        a body and a query of these models, and runs in a thread unless it is async. If it returns nothing, the response
        is 204. What it reads itself is declared here.

        Args:
            answers: by status; one alone is that of 200.
        """
        by_status = answers if isinstance(answers, dict) else {200: answers}
        names = PARAMETER.findall(path)
        parameters = {name: self._parameters[name] for name in names if name in self._parameters}

        def declare(endpoint: Endpoint) -> Endpoint:
            bound = _bind_request(endpoint, names, options.get("guard"))
            body, query = options.get("body") or bound.body, options.get("query") or bound.query
            kind = options.get("errors", _errors_of(path, body, query))
            conditional = (412,) if 304 in by_status else ()
            errors = (*kind, *options.get("more_errors", ()), *conditional)
            self.append(
                Operation(
                    method,
                    path,
                    bound.call,
                    summary,
                    by_status,
                    errors,
                    body,
                    query,
                    parameters,
                    sent_headers=options.get("sent_headers", {}),
                    headers=options.get("headers", {}),
                    version_fields=options.get("version_fields", ()),
                    creates_later=options.get("creates_later", False),
                    callers=options.get("callers", USERS),
                )
            )
            return endpoint

        return declare


@dataclass(frozen=True)
class _Bound:
    """An endpoint as a route calls it, with the request alone, and the models that it is given."""

    call: Callable[..., Any]
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None


def _bind_request(
    endpoint: Callable[..., Any], path_names: Collection[str], guard: Callable[[Request], object] | None
) -> _Bound:
    arguments = inspect.signature(endpoint).parameters.keys() & {"body", "params", *path_names}
    if not arguments and guard is None:
        return _Bound(endpoint)
    models = inspect.get_annotations(endpoint, eval_str=True) if arguments & {"body", "params"} else {}
    body, query = models.get("body"), models.get("params")
    from app.kit.web import http  # workers have operations, and no pages

    @wraps(endpoint)
    async def read(request: Request) -> Response:
        if guard is not None:
            await run_in_threadpool(guard, request)
        given = {name: value for name, value in request.path_params.items() if name in arguments}
        if query is not None:
            given["params"] = http.query(request, query)
        if body is not None:
            given["body"] = await http.json_body(request, body)
        if inspect.iscoroutinefunction(endpoint):
            response = await endpoint(request, **given)
        else:
            response = await run_in_threadpool(endpoint, request, **given)
        return response or Response(status_code=204)

    return _Bound(read, body, query)


def is_model(candidate: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _errors_of(path: str, body: object, query: object) -> tuple[int, ...]:
    """Default error statuses of an operation: one that names an object, has a body, or has a query."""
    named = (404,) if PARAMETER.search(path) else ()
    sent = (400, 413, 422) if body is not None else (422,) if query is not None else ()
    return (*named, *sent, 503)
