"""JSON from outside: whatever is wrong with it raises one kind of error."""

from __future__ import annotations

import json
import math
from typing import Any

from app.kit.text.json_values import JsonObject


class UnreadableJson(ValueError):
    """The text is not JSON, or contains what must not be passed on. The message says where and why."""


class NestedTooDeeply(UnreadableJson):
    """Objects and arrays are nested more deeply than Python reads."""


def read_json(text: str | bytes | bytearray, *, is_strict: bool = False, pairs: Any = None) -> Any:
    """Returns the value that a text contains.

    Args:
        text: its size is limited by the caller; bytes are UTF-8, UTF-16 or UTF-32.
        is_strict: refuse infinite numbers, NaN and invalid Unicode, which can be stored but not shown.
        pairs: creates an object from its (key, value) pairs; None: a dict.

    Raises:
        UnreadableJson: It cannot be read.
    """
    number = _parse_finite if is_strict else None
    try:
        value = json.loads(text, parse_constant=number, parse_float=number, object_pairs_hook=pairs)
        if is_strict:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise UnreadableJson(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise NestedTooDeeply("it is nested too deeply") from None
    except ValueError as error:  # invalid Unicode, or a number of thousands of digits
        raise UnreadableJson(str(error)) from None
    return value


def read_object(text: str | bytes | bytearray, *, is_strict: bool = False) -> JsonObject:
    """Returns the object that a text contains; see read_json.

    Raises:
        UnreadableJson: It cannot be read, or is another kind of value.
    """
    value = read_json(text, is_strict=is_strict)
    if not isinstance(value, dict):
        raise UnreadableJson("it is not a JSON object")
    return value


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
