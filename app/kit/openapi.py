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

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
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

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    endpoint: Any
    summary: str
    answers: dict[int, Answer]
    errors: tuple[int, ...] = ()
    body: type[BaseModel] | dict[str, Any] | None = None
    query: type[BaseModel] | None = None
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Schemas of path parameters; default: any string."""
    headers: dict[str, str] = field(default_factory=dict)
    """Response headers of the good answers, name → description."""

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
        "components": {"schemas": schemas["$defs"]},
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
    for status in operation.errors:
        described["responses"][str(status)] = _answer(status, ErrorAnswer, None)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": operation.parameters.get(name, {"type": "string"})}
        for name in _PARAMETER.findall(operation.path)
    ] + _query_parameters(operation)
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
