"""A table of services, as `kubectl get` prints it: the CRD's printer columns, computed from their paths, and the reason
of the state. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.joint_inference.model.crd import PRINTER_COLUMNS

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
    resources: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any], *, now: datetime, include: str = "Metadata"
) -> dict[str, Any]:
    """A Table, as `kubectl get` prints it.

    Args:
        resources: a row each.
        metadata: of the list.
        now: for ages.
        include: what a row carries beside its cells: None, Metadata, Object.
    """
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": [_NAME_COLUMN, *map(_definition, _COLUMNS)],
        "rows": [_row(resource, now, include) for resource in resources],
    }


def found_at(value: Any, path: str) -> Any:
    """What lies at a JSONPath of steps like .status.conditions[-1].type; None where nothing does."""
    for name, index in _STEP.findall(path):
        if name:
            value = value.get(name) if isinstance(value, Mapping) else None
        else:
            is_there = isinstance(value, list) and -len(value) <= int(index) < len(value)
            value = value[int(index)] if is_there else None
    return value


def human_duration(seconds: float) -> str:
    """As Kubernetes writes an age: the two largest units while the first is small, later one."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    steps = (
        (whole < 120, f"{whole}s"),
        (minutes < 10, _two(minutes, "m", whole % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _two(days, "d", hours % 24, "h")),
        (days < 730, f"{days}d"),
        (days < 8 * 365, _two(days // 365, "y", days % 365, "d")),
        (True, f"{days // 365}y"),
    )
    return next(text for is_it, text in steps if is_it)


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def _definition(column: Mapping[str, str]) -> dict[str, Any]:
    described = column.get(
        "description", f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"
    )
    return {"name": column["name"], "type": column["type"], "format": "", "description": described, "priority": 0}


def _row(resource: Mapping[str, Any], now: datetime, include: str) -> dict[str, Any]:
    cells = [_cell(found_at(resource, column["jsonPath"]), column["type"], now) for column in _COLUMNS]
    row: dict[str, Any] = {"cells": [resource["metadata"]["name"], *cells]}
    if include == "Object":
        row["object"] = resource
    elif include == "Metadata":
        kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row["object"] = {**kind, "metadata": resource["metadata"]}
    return row


def _cell(value: Any, kind: str, now: datetime) -> Any:
    if kind == "date":
        return human_duration((now - datetime.fromisoformat(value)).total_seconds()) if value else "<unknown>"
    return value
