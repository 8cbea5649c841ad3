"""The syntax trees are kept as long as these tests run, without the garbage collector: it would look through all trees
again and again, for most of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.harness.source_trees import forget_trees


@pytest.fixture(scope="package", autouse=True)
def kept_trees() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        forget_trees()
        gc.enable()
