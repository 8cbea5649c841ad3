"""The forms in which Kubernetes' tools expect a resource: a list, a table as `kubectl get` prints it, an error. Pure
but for `failure`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.joint_inference.errors import FieldConflict, InvalidResource, ServiceChanged, ServiceExists, ServiceNotFound
from app.joint_inference.kubernetes.groups import NEPTUNE, ApiGroup, group_of
from app.joint_inference.model.crd import PRINTER_COLUMNS
from app.joint_inference.model.resource import KIND, PLURAL
from app.joint_inference.sedna import MODELS
from app.kit.errors import ModelmillError, Unauthorized
from app.kit.text.json_values import JsonObject
from app.kit.web.http import retry_after
from app.model_registry.errors import ModelExists, ModelNotFound

OF_MODELS = (ModelExists, ModelNotFound)
Endpoint = Callable[[Request], Awaitable[Response]]
Columns = Sequence[Mapping[str, str]]
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def speaks_status(endpoint: Endpoint) -> Endpoint:
    """Wraps an endpoint so that errors have Kubernetes' form."""

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            if any("\0" in str(value) for value in request.path_params.values()):
                raise ServiceNotFound("No name has such a character.")  # which no database stores, either
            return await endpoint(request)
        except ModelmillError as error:
            return failure(error, request.path_params.get("name", ""), group_of(request))

    return answered


def failure(error: ModelmillError, name: str = "", group: ApiGroup = NEPTUNE) -> Response:
    headers = retry_after(error) | ({"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthorized) else {})
    return JSONResponse(status_of(error, name, group), status_code=error.status, headers=headers)


def status_of(error: ModelmillError, name: str = "", group: ApiGroup = NEPTUNE) -> JsonObject:
    """Returns a Status.

    Args:
        error: what it reports.
        name: of the requested service.
        group: in which it was requested.
    """
    name = str(error.detail.get("name") or name)
    reason, message = _describe_error(error, name, group)
    details: JsonObject = {"group": group.name, "kind": MODELS if isinstance(error, OF_MODELS) else PLURAL}
    if name:
        details["name"] = name
    if isinstance(error, FieldConflict):
        details["causes"] = [
            {
                "reason": "FieldManagerConflict",
                "field": conflict["field"],
                "message": f'conflict with "{conflict["manager"]}" using {group.api_version}',
            }
            for conflict in error.detail["conflicts"]
        ]
    if isinstance(error, InvalidResource):
        causes = [_describe_cause(problem) for problem in error.detail.get("problems", ())]
        details |= {"kind": error.detail.get("kind", KIND), "causes": causes}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": error.status,
    }


def _describe_error(error: ModelmillError, name: str, group: ApiGroup) -> tuple[str, str]:
    """Returns reason and message. kubectl shows only the message."""
    sentence = error.text
    qualified = f"{MODELS}.{group.name}" if isinstance(error, OF_MODELS) else group.qualified
    if isinstance(error, (ServiceNotFound, ModelNotFound)):
        return "NotFound", f'{qualified} "{name}" not found'
    if isinstance(error, (ServiceExists, ModelExists)):
        return "AlreadyExists", f'{qualified} "{name}" already exists'
    if isinstance(error, ServiceChanged):
        return "Conflict", f'Operation cannot be fulfilled on {group.qualified} "{name}": {sentence}'
    if isinstance(error, InvalidResource):
        causes = [_describe_cause(problem) for problem in error.detail.get("problems", ())]
        whole = ", ".join(f"{cause['field']}: {cause['message']}" for cause in causes)
        kind = error.detail.get("kind", KIND)
        return "Invalid", f'{kind}.{group.name} "{name}" is invalid: {whole or sentence}'
    return REASONS.get(error.status, "InternalError"), sentence


def _describe_cause(problem: Mapping[str, str]) -> dict[str, str]:
    is_missing = problem["message"] == "is missing"
    return {
        "reason": "FieldValueRequired" if is_missing else "FieldValueInvalid",
        "message": "Required value" if is_missing else problem["message"],
        "field": problem["path"].removeprefix("$").removeprefix(".") or "<root>",
    }


def add_warnings(response: Response, warnings: Sequence[str]) -> Response:
    """Adds a header for each warning, which kubectl prints."""
    for warning in warnings[:20]:
        text = warning.encode("ascii", "replace").decode()
        printable = "".join(letter if letter.isprintable() else "?" for letter in text)
        escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.append("Warning", f'299 - "{escaped}"')
    return response


_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(-?[0-9]+)\]")
_REASON = {
    "name": "Reason",
    "type": "string",
    "description": "Why it is in its state",
    "jsonPath": ".status.conditions[-1].reason",
}
_COLUMNS = (*PRINTER_COLUMNS, _REASON)
_NAME_COLUMN = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "priority": 0,
    "description": "Name must be unique within a namespace.",
}


def table_of(
    resources: Sequence[Mapping[str, Any]],
    metadata: Mapping[str, Any],
    *,
    now: datetime,
    include: str = "Metadata",
    columns: Columns = _COLUMNS,
) -> JsonObject:
    """Returns a Table, as `kubectl get` prints it.

    Args:
        resources: a row each.
        metadata: of the list.
        now: the time, for ages.
        include: the content of a row besides its cells: None, Metadata, Object.
        columns: those after the name.
    """
    defined = [_NAME_COLUMN, *map(_define_column, columns)]
    return make_table(metadata, defined, [_make_row(resource, columns, now, include) for resource in resources])


def make_table(metadata: Mapping[str, Any], columns: list[JsonObject], rows: list[JsonObject]) -> JsonObject:
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": dict(metadata)}
    return {**head, "columnDefinitions": columns, "rows": rows}


def read_path(value: Any, path: str) -> Any:
    """Returns the value at a JSONPath of steps like .status.conditions[-1].type; None if there is none."""
    for name, index in _STEP.findall(path):
        if name:
            value = value.get(name) if isinstance(value, Mapping) else None
        else:
            is_there = isinstance(value, list) and -len(value) <= int(index) < len(value)
            value = value[int(index)] if is_there else None
    return value


def human_duration(seconds: float) -> str:
    """Writes an age as Kubernetes does: the two largest units while the first is small, otherwise one."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    steps = (
        (whole < 120, f"{whole}s"),
        (minutes < 10, _format_two_units(minutes, "m", whole % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _format_two_units(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _format_two_units(days, "d", hours % 24, "h")),
        (days < 730, f"{days}d"),
        (days < 8 * 365, _format_two_units(days // 365, "y", days % 365, "d")),
        (True, f"{days // 365}y"),
    )
    return next(text for is_it, text in steps if is_it)


def _format_two_units(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def _define_column(column: Mapping[str, str]) -> JsonObject:
    described = column.get(
        "description", f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    )
    return {"name": column["name"], "type": column["type"], "format": "", "description": described, "priority": 0}


def _make_row(resource: Mapping[str, Any], columns: Columns, now: datetime, include: str) -> JsonObject:
    cells = [_format_cell(read_path(resource, column["jsonPath"]), column["type"], now) for column in columns]
    row: JsonObject = {"cells": [resource["metadata"]["name"], *cells]}
    if include == "Object":
        row["object"] = resource
    elif include == "Metadata":
        kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row["object"] = {**kind, "metadata": resource["metadata"]}
    return row


def _format_cell(value: Any, kind: str, now: datetime) -> Any:
    if kind == "date":
        return human_duration((now - datetime.fromisoformat(value)).total_seconds()) if value else "<unknown>"
    return value
