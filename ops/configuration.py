"""Generates docs/configuration.md from the settings: `python -m ops.configuration`. A test keeps the two equal."""

from __future__ import annotations

import re
from inspect import get_annotations
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import GIB, MIB, Settings
from app.settings.group import SettingsGroup

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration
All settings are environment variables, read once when a process starts. A secret may be a file instead: with
`MODELMILL_SECRETS_DIR=/run/secrets`, the file `/run/secrets/modelmill_s3_secret_key` holds `MODELMILL_S3_SECRET_KEY`.
Shared settings (Redis, the store, the secret key) must be the same on all hosts. Limits apply on the host where they
are set.

This page is generated from `app/settings` by `python -m ops.configuration`.
"""
TABLE_HEAD = """
| variable | default | meaning |
|---|---|---|
"""
BY_CALL = {
    "node_name": "the host's name",
    "secret_key": "random, for the lifetime of the process",
    "record_ttl_s": "the sum of `jobs_trash_after_days` and `jobs_purge_after_days`: 10 days",
}
HOME = str(Path.home())


def page() -> str:
    groups = [group for group in reversed(Settings.__mro__) if issubclass(group, SettingsGroup)]
    return HEAD + "".join(map(_section, groups))


def _section(group: type[SettingsGroup]) -> str:
    """Returns the settings that this class adds, as a heading and a table; empty if it adds none."""
    names = [name for name in get_annotations(group) if name in Settings.model_fields]
    rows = "".join(_row(name, Settings.model_fields[name]) for name in names)
    return f"\n## {(group.__doc__ or '').rstrip('.')}\n{TABLE_HEAD}{rows}" if names else ""


def undescribed() -> list[str]:
    return [name for name, field in Settings.model_fields.items() if not field.description]


def _row(name: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split())
    allowed = _allowed(field)
    return f"| `MODELMILL_{name.upper()}` | {_default(name, field)} | {meaning}{f' {allowed}' if allowed else ''} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in BY_CALL:
        return BY_CALL[name]
    value = field.default
    if value is None or value == "" or (isinstance(value, SecretStr) and not value.get_secret_value()):
        return ""
    if field.default_factory is not None:
        return ""
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{part}"' for part in value) + "]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return (
            f"`{value:g}`{_in_words(name, value)}" if isinstance(value, float) else f"`{value}`{_in_words(name, value)}"
        )
    return f"`{str(value).replace(HOME, '~')}`"


def _in_words(name: str, value: float) -> str:
    units: list[tuple[float, str]] = []
    if name.endswith("_bytes"):
        units = [(GIB, "GiB"), (MIB, "MiB")]
    elif name.endswith("_s"):
        units = [(86400, "d"), (3600, "h"), (60, "min")]
    for size, unit in units:
        if value >= size and value % size == 0:
            return f" ({value / size:g} {unit})"
    return ""


def _allowed(field: FieldInfo) -> str:
    words = _literals(field.annotation)
    bounds = [text for part in field.metadata if (text := _bound(part))]
    if words:
        return "One of " + ", ".join(f"`{word}`" for word in words) + "."
    return f"({', '.join(bounds)})" if bounds else ""


def _bound(part: Any) -> str:
    if isinstance(part, Ge):
        return f"at least {part.ge}"
    if isinstance(part, Gt):
        return f"more than {part.gt}"
    if isinstance(part, Le):
        return f"at most {part.le}"
    pattern = re.search(r"pattern='([^']+)'", repr(part))
    return f"like `{pattern[1].replace('|', chr(92) + '|')}`" if pattern else ""


def _literals(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return tuple(str(word) for word in get_args(annotation))
    for part in get_args(annotation):
        if part is not NoneType and get_origin(part) is Literal:
            return _literals(part)
    return ()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
