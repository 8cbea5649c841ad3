"""The OpenAPI document, generated from the same operations as the routes, so the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http.client import responses
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.kit.text.json_values import JsonObject
from app.kit.web import idempotency
from app.kit.web.described_type import DescribedType
from app.kit.web.operations import PARAMETER, USERS, Answer, OpenApiSchema, Operation, is_model
from app.kit.web.security import SAFE_METHODS, SECURE_SESSION_COOKIE, SESSION_COOKIE

REFUSALS = (401, 429)
"""Possible responses of any operation that needs a token, to a bad one; one that changes something also has 403."""
REFUSALS_OF_BODIES, REFUSALS_OF_KEYS = (408, 429), (409, 422, 503)
"""For a body that arrives too slowly, or beside too many others; and for an Idempotency-Key."""
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token: mm_…"},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": f"Of who signed in at /ui; over HTTPS its name is {SECURE_SESSION_COOKIE}",
    },
    "node": {"type": "http", "scheme": "bearer", "description": "The token of a node"},
}
REPLAYED = {idempotency.REPLAYED: f"true: the first answer to this {idempotency.HEADER}, once more"}
STRUCTURED_TYPES = ("application/json", "application/yaml", "text/event-stream")
"""Media types that tools parse before they compare them with a schema."""
TEXT_TYPES = ("application/jsonl", "application/x-pem-file")
"""Media types that are text, beside text/*."""
REF = "#/components/schemas/{model}"
SENT: JsonSchemaMode = "validation"
ANSWERED: JsonSchemaMode = "serialization"
_SAME_NAME = re.compile(r"\bapp__(\w+?)__(?:\w+__)?(\w+)")


class Problem(BaseModel):
    """What is wrong with a field: at and problem, or of a document of joint inference path and message."""

    at: str = ""
    problem: str = ""
    path: str = ""
    message: str = ""


class ErrorDetail(BaseModel):
    """Facts about an error: those that several errors have, and further ones by its code."""

    model_config = ConfigDict(extra="allow")

    problems: list[Problem] = []
    retry_after_s: float = 0


class ErrorBody(BaseModel):
    code: str
    message: str
    hint: str
    detail: Annotated[JsonObject, DescribedType(ErrorDetail)]
    can_retry: bool


class ErrorAnswer(BaseModel):
    error: ErrorBody


def document(
    operations: Iterable[Operation], *, title: str, version: str, demands_accounts: bool = True
) -> OpenApiSchema:
    """The OpenAPI document.

    Args:
        operations: the operations to describe.
        title: the name of the product.
        version: its version.
        demands_accounts: whether users need a token.
    """
    operations = list(operations)
    schemas = Schemas(operations)
    paths: OpenApiSchema = {}
    for operation in operations:
        paths.setdefault(operation.described_path, {})[operation.method.lower()] = {
            **_describe(operation, schemas),
            "security": _describe_security(operation, demands_accounts),
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": schemas.components(), "securitySchemes": SECURITY},
    }


class Schemas:
    """The schemas of all models of the operations, generated together, so that two classes with the same name stay
    separate."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        used: set[tuple[type[BaseModel], JsonSchemaMode]] = {(ErrorAnswer, ANSWERED)}
        self._queries = set()
        for operation in operations:
            used |= {(answer, ANSWERED) for answer in operation.answers.values() if is_model(answer)}
            used |= {(model, SENT) for model in _models_of(operation.body)}
            if operation.query is not None:
                used.add((operation.query, SENT))
                self._queries.add(operation.query)
        refs, schemas = models_json_schema(sorted(used, key=str), ref_template=REF)
        self._refs = {model: schema["$ref"] for model, schema in refs.items()}
        self._defs: OpenApiSchema = schemas["$defs"]

    def answered(self, model: type[BaseModel]) -> OpenApiSchema:
        return {"$ref": _shorten_name(self._refs[model, ANSWERED])}

    def sent(self, model: type[BaseModel]) -> OpenApiSchema:
        return {"$ref": _shorten_name(self._refs[model, SENT])}

    def whole(self, query: type[BaseModel]) -> OpenApiSchema:
        """Not a reference: its properties become parameters."""
        schema: OpenApiSchema = self._resolve_names(self._defs[self._refs[query, SENT].rpartition("/")[2]])
        return schema

    def components(self) -> OpenApiSchema:
        of_queries = {self._refs[query, SENT].rpartition("/")[2] for query in self._queries}
        return {
            _shorten_name(name): self._resolve_names(schema)
            for name, schema in self._defs.items()
            if name not in of_queries
        }

    def _resolve_names(self, schema: Any) -> Any:
        if isinstance(schema, dict):
            return {
                key: _shorten_name(value) if key == "$ref" else self._resolve_names(value)
                for key, value in schema.items()
            }
        return [self._resolve_names(each) for each in schema] if isinstance(schema, list) else schema


def _shorten_name(name: str) -> str:
    """app__conversion__schemas__NewJob, one of two NewJob in a document → ConversionNewJob."""
    return _SAME_NAME.sub(lambda match: match[1].title().replace("_", "") + match[2], name)


def _choose_tag(operation: Operation) -> str:
    """The capability to which the operation belongs, as "joint inference"; those of the installation are "system"."""
    package = str(operation.endpoint.__module__).split(".")[1:2]
    return "system" if package in ([], ["bootstrap"], ["kit"], ["main"]) else package[0].replace("_", " ")


def _describe(operation: Operation, schemas: Schemas) -> OpenApiSchema:
    described: OpenApiSchema = {
        "operationId": operation.endpoint.__name__,
        "tags": [_choose_tag(operation)],
        "summary": operation.summary,
        "responses": {
            str(status): _describe_answer(status, answer, operation, schemas)
            for status, answer in operation.answers.items()
        },
    }
    for status in sorted({*operation.errors, *_list_refusals(operation)}):
        described["responses"].setdefault(str(status), _describe_answer(status, ErrorAnswer, None, schemas))
    parameters = (
        [
            {"name": name, "in": "path", "required": True, "schema": operation.parameters.get(name, {"type": "string"})}
            for name in PARAMETER.findall(operation.path)
        ]
        + _query_parameters(operation, schemas)
        + _describe_header_parameters(operation)
    )
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = _describe_body(operation.body, schemas)
    return described


def _describe_body(body: type[BaseModel] | OpenApiSchema, schemas: Schemas) -> OpenApiSchema:
    if not isinstance(body, dict):
        return {"required": True, "content": _json_of(schemas.sent(body))}
    content = {
        kind: {**part, "schema": schemas.sent(part["schema"])} if is_model(part.get("schema")) else part
        for kind, part in body["content"].items()
    }
    return {**body, "content": content}


def _models_of(body: type[BaseModel] | OpenApiSchema | None) -> list[type[BaseModel]]:
    if isinstance(body, dict):
        return [part["schema"] for part in body["content"].values() if is_model(part.get("schema"))]
    return [] if body is None else [body]


def _describe_security(operation: Operation, demands_accounts: bool) -> list[OpenApiSchema]:
    is_optional = not demands_accounts and operation.callers[:1] == USERS[:1]
    return [*([{}] if is_optional else []), *({name: []} for name in operation.callers)]


def _list_refusals(operation: Operation) -> set[int]:
    refusals = set(REFUSALS if operation.callers else ())
    if operation.callers and operation.method not in SAFE_METHODS:
        refusals.add(403)
    if operation.body is not None:
        refusals.update(REFUSALS_OF_BODIES)
    if operation.is_once:
        refusals.update(REFUSALS_OF_KEYS)
    return refusals


def _query_parameters(operation: Operation, schemas: Schemas) -> list[OpenApiSchema]:
    if operation.query is None:
        return []
    schema = schemas.whole(operation.query)
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]


def _describe_header_parameters(operation: Operation) -> list[OpenApiSchema]:
    sent = {**operation.sent_headers, **({idempotency.HEADER: idempotency.SCHEMA} if operation.is_once else {})}
    return [{"name": name, "in": "header", "required": False, "schema": schema} for name, schema in sent.items()]


def _find_phrase(status: int) -> str:
    """460 is defined by tus, and not among the registered ones."""
    return responses.get(status, "Checksum Mismatch")


def _describe_answer(status: int, answer: Answer, operation: Operation | None, schemas: Schemas) -> OpenApiSchema:
    described: OpenApiSchema = {"description": _find_phrase(status)}
    if isinstance(answer, tuple):
        described["content"] = {kind: {"schema": _schema_of(kind)} for kind in answer}
    elif answer is not None:
        described["content"] = _json_of(schemas.answered(answer))
    headers = {**operation.headers, **(REPLAYED if operation.is_once else {})} if operation else {}
    if headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()
        }
    return described


def _schema_of(media_type: str) -> OpenApiSchema:
    """Returns the schema of a response without a model. Generated clients read bytes as text where it is missing."""
    if media_type in STRUCTURED_TYPES:
        return {}
    if media_type.startswith("text/") or media_type in TEXT_TYPES:
        return {"type": "string"}
    return {"type": "string", "format": "binary"}


def _json_of(schema: OpenApiSchema) -> OpenApiSchema:
    return {"application/json": {"schema": schema}}
