from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.kit.sandbox.runner import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()
