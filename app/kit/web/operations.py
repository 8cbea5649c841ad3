"""Describes an endpoint of the API: its route and its entry in the OpenAPI document are generated from that."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Literal, TypedDict, TypeGuard, TypeVar, Unpack

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


class Operations(list[Operation]):
    """The operations of a module, in the order of its endpoints; each is declared above its endpoint.

    Args:
        parameters: schemas of all path parameters.
    """

    def __init__(self, parameters: Mapping[str, OpenApiSchema] | None = None) -> None:
        super().__init__()
        self._parameters = parameters or {}

    def add(
        self,
        method: Method,
        path: str,
        summary: str,
        answers: dict[int, Answer],
        *,
        errors: tuple[int, ...] | None = None,
        more_errors: tuple[int, ...] = (),
        body: type[BaseModel] | OpenApiSchema | None = None,
        query: type[BaseModel] | None = None,
        guard: Callable[[Request], object] | None = None,
        **details: Unpack[_Details],
    ) -> Callable[[Endpoint], Endpoint]:
        """The decorator of an endpoint. Other arguments are fields of `Operation`.

        An endpoint `def change(request, body, params)` is given the body and the query that are declared here, and runs
        in a thread; it may leave out either, and read it itself.

        Args:
            errors: all error statuses; default: those of its kind.
            more_errors: statuses in addition to those of its kind.
            guard: refuses callers, before anything that they sent is read.
        """
        kind = _errors_of(path, body, query) if errors is None else errors
        parameters = {name: self._parameters[name] for name in PARAMETER.findall(path) if name in self._parameters}

        def declare(endpoint: Endpoint) -> Endpoint:
            given = _bind_request(endpoint, body, query, guard)
            conditional = (412,) if 304 in answers else ()
            refusals = (*kind, *more_errors, *conditional)
            operation = Operation(method, path, given, summary, answers, refusals, body, query, parameters)
            self.append(replace(operation, **details))
            return endpoint

        return declare


class _Details(TypedDict, total=False):
    sent_headers: dict[str, OpenApiSchema]
    headers: dict[str, str]
    version_fields: tuple[str, ...]
    creates_later: bool
    callers: tuple[str, ...]


def _bind_request(
    endpoint: Callable[..., Any],
    body: type[BaseModel] | OpenApiSchema | None,
    query: type[BaseModel] | None,
    guard: Callable[[Request], object] | None,
) -> Callable[..., Any]:
    """The endpoint as a route calls it: with the request alone."""
    names = inspect.signature(endpoint).parameters.keys() & {"body", "params"}
    if not names and guard is None:
        return endpoint
    from app.kit.web import http  # workers have operations, and no pages

    @wraps(endpoint)
    async def read(request: Request) -> Response:
        if guard is not None:
            await run_in_threadpool(guard, request)
        sent: dict[str, BaseModel] = {}
        if "params" in names:
            assert query is not None
            sent["params"] = http.query(request, query)
        if "body" in names:
            assert isinstance(body, type)
            sent["body"] = await http.json_body(request, body)
        return await run_in_threadpool(endpoint, request, **sent)

    return read


def is_model(candidate: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _errors_of(path: str, body: object, query: object) -> tuple[int, ...]:
    """Default error statuses of an operation: one that names an object, has a body, or has a query."""
    named = (404,) if PARAMETER.search(path) else ()
    sent = (400, 413, 422) if body is not None else (422,) if query is not None else ()
    return (*named, *sent, 503)
