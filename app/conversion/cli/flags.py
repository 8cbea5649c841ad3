"""Flags of `convert` as the options of a conversion. Checked here with the service's own rules, before any upload."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.kit.errors import BadRequest


def options_of(file: Path | None, flags: Mapping[str, Any], shapes: Sequence[str]) -> dict[str, Any]:
    """The options as JSON: the file's, overlaid with the flags that were given.

    flags: dotted path → value or None, e.g. {"preprocess.color": "BGR"}. shapes: "input=1,3,224,224".
    Raises BadRequest.
    """
    chosen = _from_file(file) if file else {}
    for path, value in flags.items():
        if value is not None:
            _put(chosen, path.split("."), value)
    for text in shapes:
        name, shape = _shape(text)
        chosen.setdefault("input_shapes", {})[name] = shape
    _check(chosen)
    return chosen


def numbers(text: str | None, flag: str) -> list[float] | None:
    """'0.485,0.456,0.406' as numbers; one number is for all channels."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise BadRequest(f"{flag} {text!r} is no number", hint='Write "127" or "0.485,0.456,0.406".') from None


def _shape(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.rpartition("=")
    try:
        shape = [int(size) for size in sizes.replace("x", ",").split(",")]
    except ValueError:
        shape = []
    if not name or not shape:
        raise BadRequest(f"--shape {text!r} is no shape", hint='Write the name and all axes: "input=1,3,224,224".')
    return name, shape


def _from_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"--options {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadRequest(f"--options {path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadRequest(f"--options {path} must hold a JSON object")
    return found


def _put(target: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        below = target.setdefault(name, {})
        if not isinstance(below, dict):
            raise BadRequest(f"option {name!r} must be an object")
        target = below
    target[path[-1]] = value


def _check(chosen: dict[str, Any]) -> None:
    from pydantic import ValidationError

    from app.conversion.options import Options

    try:
        Options.model_validate_json(json.dumps(chosen))
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'options'}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors()
        ]
        raise BadRequest(f"these options cannot be: {'; '.join(problems)}") from error
