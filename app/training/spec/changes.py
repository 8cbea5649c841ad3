"""Differences between tasks, field by field, and a task's text with changed fields. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from app.kit.text.json_values import JsonObject
from app.training.errors import UnreadableSpec
from app.training.spec.document import MAX_DEPTH, write_fields
from app.training.spec.fields import TaskSpec

MAPS = ("overrides", "convert", "vary", "early_stop")
"""Fields whose entries are named by a dot: overrides.trainer.seed, convert.images, vary.total_epochs."""
ARGS = "args"
"""The field whose entries are a program's arguments: args.lr is `--lr=…`."""


@dataclass(frozen=True)
class Difference:
    """A field that differs between tasks, or sweeps."""

    field: str
    """With a dot for nested ones: overrides.trainer.seed."""
    values: Sequence[JsonValue]
    """One for each task; None if it is absent."""


def differences(specs: Sequence[TaskSpec]) -> list[Difference]:
    """Field by field, in their order; the tasks' names are ignored."""
    return document_differences([fields_of(spec) for spec in specs])


def fields_of(spec: TaskSpec) -> JsonObject:
    """What a task sets."""
    return spec.model_dump(mode="json", exclude_defaults=True)


def document_differences(documents: Sequence[Mapping[str, JsonValue]]) -> list[Difference]:
    """The same of documents, given by the fields that they set."""
    flat = [dict(_flatten({name: value for name, value in one.items() if name != "name"})) for one in documents]
    fields = dict.fromkeys(field for one in flat for field in one)
    rows = [Difference(field, [one.get(field) for one in flat]) for field in fields]
    return [row for row in rows if any(value != row.values[0] for value in row.values)]


def apply_changes(spec: TaskSpec, changes: Mapping[str, JsonValue]) -> str:
    """Returns the text of a task with other values; the result may be invalid, which `read_spec` detects.

    Args:
        changes: by field, as differences name them; None removes the field.

    Raises:
        UnreadableSpec: A value is nested too deep.
    """
    return with_values(fields_of(spec), changes)


def with_values(given: Mapping[str, Any], changes: Mapping[str, JsonValue]) -> str:
    """The text of fields with others in their place. Arguments and errors as of `changed`."""
    fields = {name: dict(value) if isinstance(value, dict) else value for name, value in given.items()}
    for place, value in changes.items():
        head, dot, name = place.partition(".")
        if dot and head == ARGS:
            fields[ARGS] = _with_argument(fields.get(ARGS), name, value)
            continue
        inner = fields.setdefault(head, {}) if dot and head in MAPS else None
        target, key = (inner, name) if isinstance(inner, dict) else (fields, place)
        if value is None:
            target.pop(key, None)
        else:
            target[key] = value
    try:
        return write_fields({name: value for name, value in fields.items() if name not in MAPS or value != {}})
    except RecursionError:
        raise UnreadableSpec(f"The spec is nested more than {MAX_DEPTH} deep.") from None


def _with_argument(args: Any, name: str, value: JsonValue) -> list[Any]:
    """A program's arguments with --name=value, in place of one of that name."""
    others = [arg for arg in (args if isinstance(args, list) else []) if not str(arg).startswith(f"--{name}=")]
    text = value if isinstance(value, str) else json.dumps(value)
    return others if value is None else [*others, f"--{name}={text}"]


def _flatten(fields: Mapping[str, JsonValue], above: str = "") -> Iterator[tuple[str, JsonValue]]:
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
