"""JSON merge patches, RFC 7396."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Returns the target with the patch: null removes a value, objects are merged. Neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    base = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            base.pop(name, None)
        else:
            base[name] = merge_patch(base.get(name), value)
    return base
