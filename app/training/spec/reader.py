"""A spec as it is sent, YAML or JSON, becomes a TaskSpec. Whatever is sent, only errors of the house come out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from app.kit.errors import BadInput, TooLarge
from app.kit.web.http import checked
from app.training.errors import BadSpec, UnreadableSpec
from app.training.spec.fields import TaskSpec
from app.training.spec.plain_yaml import MAX_DEPTH, read_yaml
from app.training.spec.problems import Problem, in_words

MAX_SPEC_BYTES = 64 * 1024
HINT = "What a task may say is described at /openapi.json; the page New task writes one for you."
_TEXT_HINT = "Send a YAML or JSON text in UTF-8."
_INT64 = range(-(1 << 63), 1 << 63)


def read_spec(body: bytes, *, content_type: str = "") -> tuple[TaskSpec, str]:
    """The spec, and its text exactly as it was sent. JSON if the type says so, or if it begins with a brace.

    Raises TooLarge, UnreadableSpec, BadSpec (detail: problems, a list of {at, problem}).
    """
    if len(body) > MAX_SPEC_BYTES:
        raise TooLarge(f"The spec of a task may have {MAX_SPEC_BYTES} bytes.", hint="Data belongs into files.")
    text = _decoded(body)
    bare = text.removeprefix("\ufeff")
    data = _read_json(bare) if _is_json(bare, content_type.lower()) else read_yaml(bare)
    if not isinstance(data, dict):
        found = "empty" if data is None else "no list of fields"
        raise UnreadableSpec(f"The spec is {found}.", hint="Write fields and values, like workload: ppo")
    problems: list[Problem] = [{"at": at, "problem": problem} for at, problem in _strange(data, "")]
    if problems:
        raise _bad(problems)
    try:
        return checked(lambda: TaskSpec.model_validate(data)), text
    except BadInput as error:
        raise _bad(in_words(error.detail["problems"], data)) from None


def _bad(problems: list[Problem]) -> BadSpec:
    first = problems[0]
    return BadSpec(f"{first['at']}: {first['problem']}", hint=HINT, detail={"problems": problems})


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        message = f"The spec is not UTF-8: byte {error.start} does not belong."
        raise UnreadableSpec(message, hint=_TEXT_HINT) from None


def _is_json(text: str, content_type: str) -> bool:
    return "json" in content_type or text.lstrip().startswith("{")


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        message = f"The spec is not JSON: line {error.lineno}, column {error.colno}: {error.msg}."
        raise UnreadableSpec(message, hint=_TEXT_HINT) from None
    except RecursionError:
        raise UnreadableSpec(f"The spec is nested more than {MAX_DEPTH} deep.") from None
    except ValueError as error:  # a number of thousands of digits
        raise UnreadableSpec(f"The spec is not JSON: {error}.", hint=_TEXT_HINT) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UnreadableSpec(f"The key {key[:100]!r} is there twice.")
        found[key] = value
    return found


def _strange(value: Any, at: str, depth: int = 1) -> Iterator[tuple[str, str]]:
    """What no field takes, by the place where it stands: it could not be stored, or not be sent on."""
    if isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise UnreadableSpec(f"The spec is nested more than {MAX_DEPTH} deep.")
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, below in pairs:
            place = f"{at}.{key}" if at else str(key)
            problem = _problem(key)
            if problem:
                yield at or "spec", f"a key of it {problem}"
            else:
                yield from _strange(below, place, depth + 1)
    else:
        problem = _problem(value)
        if problem:
            yield at, f"it {problem}"


def _problem(value: Any) -> str | None:
    if isinstance(value, str) and any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value):
        return "has a NUL or half a character"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and value not in _INT64:
        return "is a number of more than 64 bits"
    return None
