"""Flags of commands as the options of a conversion, checked by the service's rules before any upload."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.kit.cli.document_files import read_json
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.text.pydantic_messages import own_sentence
from app.kit.text.untrusted_json import UnreadableJson, read_object


def options_of(file: Path | None, flags: Mapping[str, Any], shapes: Sequence[str]) -> JsonObject:
    """The options as JSON: the file's, overlaid with the flags that were given.

    Args:
        flags: By dotted path, e.g. {"preprocess.color": "BGR"}.
        shapes: Each "input=1,3,224,224".

    Raises:
        NotFound: There is no such file.
        BadRequest: The file cannot be read, or the options cannot be.
    """
    chosen = read_json(str(file)) if file else {}
    for path, value in flags.items():
        _put(chosen, path.split("."), value)
    for text in shapes:
        name, shape = _parse_shape(text)
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


def seconds(text: str | None) -> float | None:
    """Returns the seconds of "90s", "10m" or "1h".

    Raises:
        BadRequest: The text is no length of time.
    """
    from app.conversion.goals import parse_budget

    if text is None:
        return None
    try:
        return parse_budget(text)
    except ValueError as error:
        raise BadRequest(f"--budget: {error}", hint="Write 90s, 10m or 1h.") from None


def steps_of(text: str) -> list[JsonObject]:
    """Returns the steps of a candidate of a report, "bie.json" or "bie.json:3".

    Raises:
        BadRequest: The report has no such candidate, or another form.
        NotFound: There is no such file.
    """
    name, _, number = text.rpartition(":")
    path, id_ = (Path(name), number) if name and number.isdecimal() else (Path(text), "")
    tried = read_json(str(path)).get("search", {}).get("candidates", [])
    chosen = next((one for one in tried if (str(one["id"]) == id_ if id_ else one["is_taken"])), None)
    if chosen is None or not chosen.get("steps"):
        raise BadRequest(
            f"--start {text}: the report has no such candidate",
            hint="It is the bie.json of a job that has searched; its candidates have ids from 0 on.",
        )
    return list(chosen["steps"])


def preprocess_flags(text: str | None) -> JsonObject:
    """A preset's values or a JSON object, as flags.

    Raises:
        BadRequest: It is neither.
    """
    from app.conversion.presets import PREPROCESS as PRESETS

    if text is None:
        return {}
    if text in PRESETS:
        return {f"preprocess.{name}": value for name, value in PRESETS[text].items()}
    try:
        values = read_object(text)
    except UnreadableJson:
        raise BadRequest(
            f"--preprocess {text!r} is neither a name nor a JSON object",
            hint=f'The names are {", ".join(PRESETS)}; an object is such as {{"color": "BGR", "scale": 1}}.',
        ) from None
    return {f"preprocess.{name}": value for name, value in values.items()}


def _parse_shape(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.rpartition("=")
    try:
        shape = [int(size) for size in sizes.replace("x", ",").split(",")]
    except ValueError:
        shape = []
    if not name or not shape:
        raise BadRequest(f"--shape {text!r} is no shape", hint='Write the name and all axes: "input=1,3,224,224".')
    return name, shape


def _put(target: JsonObject, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        below = target.setdefault(name, {})
        if not isinstance(below, dict):
            raise BadRequest(f"option {name!r} must be an object")
        target = below
    target[path[-1]] = value


def _check(chosen: JsonObject) -> None:
    from pydantic import ValidationError

    from app.conversion.options import Options

    try:
        Options.model_validate_json(json.dumps(chosen))
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'options'}: {own_sentence(problem['msg'])}"
            for problem in error.errors()
        ]
        raise BadRequest(f"these options cannot be: {'; '.join(problems)}") from error
