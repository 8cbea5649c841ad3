"""Each measurement can be started: nothing that it imports of the product has moved."""

from __future__ import annotations

import importlib

import pytest

from ops.benchmarks.__main__ import NAMES, WITH_OPTIONS


@pytest.mark.parametrize("name", [*NAMES, *WITH_OPTIONS])
def test_it_has_a_module_with_a_main(name: str) -> None:
    assert callable(importlib.import_module(f"ops.benchmarks.{name}").main)
