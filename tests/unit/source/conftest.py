"""The syntax trees are kept as long as these tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.source_trees import forget_trees


@pytest.fixture(scope="package", autouse=True)
def kept_trees() -> Iterator[None]:
    yield
    forget_trees()
