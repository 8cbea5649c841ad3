"""A browser in front of a product with joint inference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.settings import Settings
from tests.harness.joint.pages import Browser
from tests.harness.users import within


@pytest.fixture
def browser(settings: Settings) -> Iterator[Browser]:
    with within(settings) as web:
        yield Browser(web)
