"""Names of JSON values in type annotations, and the numbers among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

JsonObject = dict[str, Any]
"""A JSON object whose members are open, or are described elsewhere: by a schema, a reader, or another program."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_in(values: Mapping[str, Any], key: str) -> float | None:
    """Returns the member of an object if it is a number."""
    value = values.get(key)
    return float(value) if is_number(value) else None


def whole_in(values: Mapping[str, Any], key: str) -> int | None:
    """Returns the member of an object without its decimals if it is a number."""
    value = number_in(values, key)
    return None if value is None else int(value)
