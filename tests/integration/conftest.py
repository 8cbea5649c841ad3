"""Fixtures of the integration tests: clients of the running service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ops.stand import Stand
from tests.integration.api import Api


@pytest.fixture
def api(service: Stand) -> Iterator[Api]:
    with Api(service.url) as client:
        yield client
