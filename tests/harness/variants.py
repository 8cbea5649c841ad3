"""Values of a parameter that go the way of those beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def exhaustive(*values: Any, ids: str = "") -> list[Any]:
    """Parameters that only `ops/test --all` tries.

    Args:
        values: One for each, or a tuple where there are several parameters.
        ids: A word for each, separated by blanks; empty: pytest's own.
    """
    names: Sequence[str | None] = ids.split() or [None] * len(values)
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.exhaustive, id=name)
        for value, name in zip(values, names, strict=True)
    ]
