"""The OpenAPI document, made from the operations that the routes are made from, so the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import Route

from app.kit.security import SESSION_COOKIE

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
REFUSALS = (401, 429)
"""What any operation that needs a token may answer to a bad one; one that changes something besides with 403."""
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token: mm_…"},
    "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE, "description": "Of who signed in at /ui"},
}
REF = "#/components/schemas/{model}"


class ErrorBody(BaseModel):
    code: str
    message: str
    hint: str
    detail: dict[str, Any]
    can_retry: bool


class ErrorAnswer(BaseModel):
    error: ErrorBody


Answer = type[BaseModel] | tuple[str, ...] | None


@dataclass(frozen=True)
class Operation:
    """One endpoint: its route and its description.

    answers: status → model, or the media types of what has none, or None for no body. errors: statuses it may refuse
    with. body: model of a JSON body, or a ready request body object.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    endpoint: Any
    summary: str
    answers: dict[int, Answer]
    errors: tuple[int, ...] = ()
    body: type[BaseModel] | dict[str, Any] | None = None
    query: type[BaseModel] | None = None
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Schemas of path parameters; default: any string."""
    sent_headers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Schemas of request headers that it heeds; none is required."""
    headers: dict[str, str] = field(default_factory=dict)
    """Response headers of the good answers, name → description."""
    is_open: bool = False
    """Is everybody answered, without a token?"""

    def route(self) -> Route:
        return Route(self.path, self.endpoint, methods=[self.method], name=self.endpoint.__name__)


def document(operations: Iterable[Operation], *, title: str, version: str) -> dict[str, Any]:
    operations = list(operations)
    models = {ErrorAnswer} | {m for op in operations for m in _models(op)}
    _, schemas = models_json_schema([(m, "serialization") for m in sorted(models, key=str)], ref_template=REF)
    paths: dict[str, Any] = {}
    for operation in operations:
        path = _PARAMETER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": schemas["$defs"], "securitySchemes": SECURITY},
        "security": [{name: []} for name in SECURITY],
    }


def _models(operation: Operation) -> list[type[BaseModel]]:
    candidates = [operation.body, *operation.answers.values()]
    return [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]


def _described(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.endpoint.__name__,
        "summary": operation.summary,
        "responses": {str(status): _answer(status, answer, operation) for status, answer in operation.answers.items()},
    }
    refusals = () if operation.is_open else REFUSALS if operation.method == "GET" else (*REFUSALS, 403)
    for status in sorted({*operation.errors, *refusals}):
        described["responses"][str(status)] = _answer(status, ErrorAnswer, None)
    if operation.is_open:
        described["security"] = []
    parameters = (
        [
            {"name": name, "in": "path", "required": True, "schema": operation.parameters.get(name, {"type": "string"})}
            for name in _PARAMETER.findall(operation.path)
        ]
        + _query_parameters(operation)
        + _header_parameters(operation)
    )
    if parameters:
        described["parameters"] = parameters
    if isinstance(operation.body, dict):
        described["requestBody"] = operation.body
    elif operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json_of(operation.body)}
    return described


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema = operation.query.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]


def _header_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, "schema": schema}
        for name, schema in operation.sent_headers.items()
    ]


def _answer(status: int, answer: Answer, operation: Operation | None) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if isinstance(answer, tuple):
        described["content"] = {kind: {"schema": {"type": "string"} if kind == "text/plain" else {}} for kind in answer}
    elif answer is not None:
        described["content"] = _json_of(answer)
    if operation and operation.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in operation.headers.items()
        }
    return described


def _json_of(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}
