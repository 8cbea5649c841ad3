"""One override of Hydra's command line, read by Hydra itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString


@cache
def parsed(word: str) -> tuple[str, Any]:
    """Its key, and its value: plain, as in the configuration that it is put into."""
    override = OverridesParser.create().parse_override(word)
    assert not override.is_delete()
    assert not override.is_sweep_override()
    assert override.package is None
    key = override.key_or_group
    prefix = "++" if override.is_force_add() else "+" if override.is_add() else ""
    return f"{prefix}{key}", _plain(override.value())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(name): _plain(below) for name, below in value.items()}
    if isinstance(value, list):
        return [_plain(below) for below in value]
    return value.text if isinstance(value, QuotedString) else value
