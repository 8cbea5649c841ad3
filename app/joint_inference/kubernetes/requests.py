"""Parses requests of Kubernetes' tools: the body, the options, the selected services, and the format of the
response."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from app.joint_inference.documents import parse_document
from app.joint_inference.kubernetes.groups import group_of
from app.joint_inference.model.field_ownership import MAX_MANAGER, OURS
from app.joint_inference.model.resource import KIND, VERSION, Service
from app.joint_inference.sedna import ignored_parameters, read_spelling
from app.joint_inference.validation import unknown_in, validate, warnings_of
from app.kit.errors import BadRequest
from app.kit.text.untrusted_json import UnreadableJson, read_json
from app.kit.web.request_body import read_whole_body

MAX_BODY_BYTES = 1 << 20
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
YAML = ("application/yaml", "application/x-yaml", "text/yaml", APPLY)


class UnknownPatch(BadRequest, status=415, code="UNKNOWN_PATCH"): ...


@dataclass(frozen=True)
class WriteOptions:
    """The query options of a writing request."""

    is_dry: bool
    """True if nothing must be stored."""
    fields: str
    """What to do about unknown fields: Strict, Warn or Ignore."""
    manager: str
    """The manager that sets the fields."""
    is_forced: bool
    """True if an apply takes fields over from other managers."""


def write_options(request: Request) -> WriteOptions:
    """Reads the options.

    Raises:
        BadRequest: One is not valid.
    """
    query = request.query_params
    fields = query.get("fieldValidation") or "Warn"
    if fields not in ("Strict", "Warn", "Ignore"):
        raise BadRequest(f"fieldValidation is Strict, Warn or Ignore, not {fields[:50]!r}.")
    dry = query.get("dryRun", "")
    if dry not in ("", "All"):
        raise BadRequest(f"dryRun is All or left out, not {dry[:50]!r}.")
    agent = request.headers.get("user-agent", "").partition("/")[0].strip()
    manager = query.get("fieldManager") or agent or OURS
    if len(manager) > MAX_MANAGER or not manager.isprintable():
        raise BadRequest(f"A fieldManager has at most {MAX_MANAGER} printable characters.")
    return WriteOptions(dry == "All", fields, manager, query.get("force", "").lower() in ("true", "1"))


async def body_of(request: Request) -> Any:
    """Reads JSON, or YAML if the Content-Type says so; None without a body.

    Raises:
        BadRequest, TooLarge: It cannot be read.
    """
    body = await read_whole_body(request, MAX_BODY_BYTES, "A resource")
    if not body:
        return None
    try:
        if content_type(request) in YAML:
            return parse_document(body)
        return read_json(body)
    except UnreadableJson as error:
        raise BadRequest(f"The body is not JSON: {error}.") from None


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def check_kind(request: Request, resource: Any) -> None:
    """Checks the kind and version of a resource.

    Raises:
        BadRequest: They differ from those in the path.
    """
    if not isinstance(resource, dict):
        raise BadRequest("The body is no resource.")
    group = group_of(request)
    if resource.get("kind") != KIND or resource.get("apiVersion") != group.api_version:
        actual = f"{resource.get('apiVersion')}, {resource.get('kind')}"[:200]
        raise BadRequest(f"{KIND} in version {VERSION!r} of {group.name} is wanted here, not {actual}.")


def warnings_for(resource: Any, writing: WriteOptions) -> list[str]:
    """Returns warnings about unknown fields, fields of Sedna that have no counterpart, and unused parameters.

    Raises:
        BadRequest: Unknown fields are not allowed.
        InvalidResource: The resource is not valid.
    """
    ignored = ignored_parameters(validate(resource)["spec"])
    return _make_warnings(resource, warnings_of(resource), ignored, writing)


def warnings_for_fields(resource: Any, writing: WriteOptions) -> list[str]:
    """Returns the same as warnings_for, but for parameters, for a resource with only some of the fields.

    Raises:
        BadRequest: Unknown fields are not allowed.
    """
    return _make_warnings(resource, unknown_in(resource), [], writing)


def _make_warnings(resource: Any, unknown: Sequence[str], ignored: list[str], writing: WriteOptions) -> list[str]:
    """What Sedna knows is no mistake, even if unknown fields are."""
    _, of_sedna = read_spelling(resource)
    unknown = [path for path in unknown if path not in of_sedna]
    if unknown and writing.fields == "Strict":
        raise _make_bad_request(unknown)
    told = [f'unknown field "{path}"' for path in unknown] if writing.fields == "Warn" else []
    return [*told, *(f"{path} has no effect here" for path in of_sedna), *ignored]


def _make_bad_request(unknown: Sequence[str]) -> BadRequest:
    return BadRequest("strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown[:20]))


def number_of(query: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """Reads a number of the query.

    Args:
        default: if it is missing or empty.
        most: larger numbers are reduced to this.

    Raises:
        BadRequest: It is not a whole number from 0.
    """
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadRequest(f"{name} is a number, not {text[:50]!r}.")
    return min(int(text), most)


def wants_table(accept: str) -> bool:
    """Returns whether a table is preferred to the plain resource."""
    for part in accept.split(","):
        kind, *options = (piece.strip() for piece in part.split(";"))
        if kind == "application/json":
            return _is_table(options)
    return False


def _is_table(options: Sequence[str]) -> bool:
    return {"as=Table", "v=v1", "g=meta.k8s.io"} <= set(options)


Match = Callable[[Mapping[str, str]], bool]
_FIELDS = ("metadata.name", "metadata.namespace")
_SETS = re.compile(r"([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)")
_THERE = re.compile(r"(!?)\s*([^\s=!,()]+)")


@dataclass(frozen=True)
class Selector:
    fields: tuple[Match, ...] = ()
    labels: tuple[Match, ...] = ()

    def takes(self, service: Service) -> bool:
        return self.matches({"metadata.name": service.name, "metadata.namespace": service.namespace}, service.labels)

    def matches(self, fields: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        return all(match(fields) for match in self.fields) and all(match(labels) for match in self.labels)


def selector_of(query: Mapping[str, str]) -> Selector:
    """Reads the selectors.

    Raises:
        BadRequest: They are not valid.
    """
    fields = tuple(_parse_field(part) for part in _split_selector(query.get("fieldSelector", "")))
    return Selector(fields, tuple(_parse_label(part) for part in _split_selector(query.get("labelSelector", ""))))


def fields_of(text: str) -> dict[str, str]:
    """Reads a field selector that contains only equalities.

    Raises:
        BadRequest: It is not valid.
    """
    matches = [_EQUAL.fullmatch(part) for part in _split_selector(text)]
    if not all(match and match.group(2) != "!=" for match in matches):
        raise BadRequest(f"{text!r} is no field selector of equalities.")
    return {match.group(1): match.group(3) for match in matches if match}


def _split_selector(text: str) -> Iterator[str]:
    """Splits at commas outside of parentheses."""
    for part in re.split(r",(?![^()]*\))", text):
        if part.strip():
            yield part.strip()


def _parse_field(part: str) -> Match:
    match = _EQUAL.fullmatch(part)
    if match is None:
        raise BadRequest(f"{part!r} is no field selector: write metadata.name=…")
    key, operator, value = match.groups()
    if key not in _FIELDS:
        raise BadRequest(f"field label not supported: {key}")
    return _make_equality(key, operator, value)


def _parse_label(part: str) -> Match:
    if match := _SETS.fullmatch(part):
        key, operator, values = match.groups()
        choices = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in choices
        return lambda labels: labels.get(key) not in choices
    if match := _EQUAL.fullmatch(part):
        return _make_equality(*match.groups())
    if match := _THERE.fullmatch(part):
        is_not, key = match.groups()
        return lambda labels: (key in labels) is not bool(is_not)
    raise BadRequest(f"{part!r} is no label selector.")


def _make_equality(key: str, operator: str, value: str) -> Match:
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value
