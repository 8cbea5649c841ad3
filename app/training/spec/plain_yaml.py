"""The plain part of YAML, in which a spec is written: what the kit reads, refused in the words of a spec."""

from __future__ import annotations

from typing import Any

from app.kit.text import plain_yaml
from app.kit.text.plain_yaml import FLOAT, MAX_DEPTH, MAX_PARTS, UnreadableYaml
from app.training.errors import UnreadableSpec

_HINT = "YAML is written as fields and values, like workload: ppo"


def read_yaml(text: str) -> Any:
    """None for an empty text. Raises UnreadableSpec, which says where."""
    try:
        return plain_yaml.read_yaml(text)
    except UnreadableYaml as error:
        raise UnreadableSpec(error.message, hint=_HINT) from None


__all__ = ["FLOAT", "MAX_DEPTH", "MAX_PARTS", "read_yaml"]
