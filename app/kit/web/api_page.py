"""The OpenAPI document as a page: every call with its parameters, body, responses and an equivalent curl command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web.auth import user_of
from app.kit.web.operations import OpenApiSchema
from app.kit.web.state import AppState
from app.kit.web.templates import render

document_of = AppState[Callable[[], OpenApiSchema]]("openapi")
"""Set by the application."""
VERBS = ("get", "post", "put", "patch", "delete", "head", "options")
PHRASES = {str(status.value): status.phrase for status in HTTPStatus}
EXAMPLES = {"string": "…", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True)
class Row:
    """A parameter, or a field of a body."""

    name: str
    place: str
    """path, query, header or body."""
    kind: str
    is_required: bool
    description: str


@dataclass(frozen=True)
class DescribedAnswer:
    statuses: list[str]
    meaning: str
    """Empty for errors about which only their statuses are known."""
    schema: str
    """Its name, or ''."""


@dataclass(frozen=True)
class Call:
    anchor: str
    verb: str
    path: str
    summary: str
    rows: list[Row]
    answers: list[DescribedAnswer]
    curl: str


def page(request: Request) -> Response:
    user_of(request)
    return render(request, "kit/api.html", groups=groups(document_of(request)(), str(request.base_url).rstrip("/")))


def groups(document: Mapping[str, Any], address: str) -> dict[str, list[Call]]:
    """Returns the calls by their tag, in the document's order.

    Args:
        address: the service's address, for the examples.
    """
    matching: dict[str, list[Call]] = {}
    for path, operations in document["paths"].items():
        for verb in VERBS:
            if verb in operations:
                [tag] = operations[verb]["tags"]
                matching.setdefault(tag, []).append(_call(document, verb, path, operations[verb], address))
    return matching


def _call(document: Mapping[str, Any], verb: str, path: str, operation: Mapping[str, Any], address: str) -> Call:
    given = [_describe_parameter(document, each) for each in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {})
    kind, content = _choose_content(body)
    schema = _resolve(document, content.get("schema", {}))
    fields = list(_iterate_fields(document, schema))
    answers = _describe_answers(operation["responses"])
    curl = _build_curl(
        verb, address + path, kind, _make_example(document, schema) if kind == "application/json" else None
    )
    return Call(
        operation["operationId"], verb.upper(), path, operation.get("summary", ""), given + fields, answers, curl
    )


def _describe_parameter(document: Mapping[str, Any], given: Mapping[str, Any]) -> Row:
    schema = given.get("schema", {})
    description = given.get("description") or schema.get("description", "")
    return Row(given["name"], given["in"], _describe_type(document, schema), given.get("required", False), description)


def _iterate_fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Row]:
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        description = part.get("description") or _resolve(document, part).get("description", "")
        yield Row(name, "body", _describe_type(document, part), name in required, description)


def _resolve(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    whole: Mapping[str, Any] = document["components"]["schemas"][name] if name else schema
    return whole


def _describe_type(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A type in short form: text, one of …, a list of …, the name of a schema."""
    if "$ref" in schema:
        whole = _resolve(document, schema)
        return _describe_type(document, whole) if "enum" in whole else str(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_describe_type(document, each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"[{_describe_type(document, schema.get('items', {}))}]"
    return str(schema.get("format") or schema.get("type", "any"))


def _describe_answers(responses: Mapping[str, Mapping[str, Any]]) -> list[DescribedAnswer]:
    """Merges responses with the same meaning and form: a dozen lines of errors hide the relevant ones."""
    alike: dict[tuple[str, str], list[str]] = {}
    for status, answer in responses.items():
        meaning = answer.get("description", "")
        if status.startswith(("4", "5")) and meaning == PHRASES.get(status):
            meaning = ""
        alike.setdefault((meaning, _name_answer(answer)), []).append(status)
    return [DescribedAnswer(statuses, meaning, schema) for (meaning, schema), statuses in alike.items()]


def _name_answer(answer: Mapping[str, Any]) -> str:
    kind, content = _choose_content(answer.get("content", {}))
    return str(content.get("schema", {}).get("$ref", "").rpartition("/")[2] or kind)


def _choose_content(contents: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns JSON if there is any, else the first media type, and its description; nothing if there is none."""
    return min(contents.items(), key=lambda item: item[0] != "application/json", default=("", {}))


def _build_curl(verb: str, url: str, kind: str, example: Any) -> str:
    parts = (
        ["curl"] + ([f"-X {verb.upper()}"] if verb != "get" else []) + ['-H "Authorization: Bearer $MODELMILL_TOKEN"']
    )
    if example is not None:
        parts.append(f"--json '{json.dumps(example, ensure_ascii=False)}'")
    elif kind == "multipart/form-data":
        parts.append("-F file=@FILE")
    elif kind:
        parts.append(f'-H "Content-Type: {kind}" --data-binary @FILE')
    return " ".join([*parts, f"'{url}'"])


def _make_example(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Returns an example body with the required fields."""
    properties = schema.get("properties", {})
    return {name: _make_value(document, properties[name]) for name in schema.get("required", ()) if name in properties}


def _make_value(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    whole = _resolve(document, schema)
    for key in ("default", "const"):
        if key in whole:
            return whole[key]
    if whole.get("enum"):
        return whole["enum"][0]
    if "anyOf" in whole:
        return _make_value(document, whole["anyOf"][0])
    return EXAMPLES.get(whole.get("type", "string"))


ROUTES = [Route("/ui/api", page)]
