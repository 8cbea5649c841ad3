"""An argument as Hydra reads it: key=value, where a value stays one value whatever characters it has."""

from __future__ import annotations

import re

from pydantic import JsonValue

from app.training.spec.overrides import INTERPOLATION

_PLAIN_PATH = re.compile(r"[\w/][\w.-]*(?:/[\w.-]+)+", re.ASCII)
"""Has a slash, so it is neither a number nor null nor a list, and stands without quotes."""
_PLAIN_WORD = re.compile(r"(?!(?:null|true|false|inf|nan)$)[a-z_][\w-]*", re.ASCII | re.IGNORECASE)


def argument(key: str, value: JsonValue) -> str:
    return f"{key}={written(value)}"


def written(value: JsonValue) -> str:
    """Raises ValueError for a text that Hydra would replace within quotes too; specs refuse it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{written(below)}" for name, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if not isinstance(value, str):
        return repr(value)
    if INTERPOLATION in value:
        raise ValueError(f"Hydra would replace {INTERPOLATION}")
    is_plain = _PLAIN_PATH.fullmatch(value) or _PLAIN_WORD.fullmatch(value)
    return value if is_plain else _quoted(value)


def _quoted(text: str) -> str:
    """Only a backslash before a quote, the last one included, means something to Hydra."""
    return '"' + re.sub(r'(\\*)"', r'\1\1\\"', re.sub(r"(\\+)$", r"\1\1", text)) + '"'
