"""Fixtures of the integration tests: clients of the running service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.accounts.model import Role
from app.vision.encoding import encode
from ops.stand import Stand
from tests.integration.api import Api
from tests.integration.people import ADDRESSES, Person, person
from tests.integration.training import RAY, make_common


@pytest.fixture
def api(service: Stand) -> Iterator[Api]:
    with Api(service.url) as client:
        yield client


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """The whole product where accounts are demanded."""
    with Stand(tmp_path_factory.mktemp("shared"), accounts="true", ray_address=RAY) as stand:
        stand.workers("actors", onnx=1, bie=1, nef=1, done=1)
        stand.web()
        make_common(stand.settings().homes)
        yield stand


@pytest.fixture(scope="session")
def admin(shared: Stand) -> Person:
    return person(shared, "root-admin", Role.ADMIN)


@pytest.fixture(scope="session")
def alice(shared: Stand) -> Person:
    return person(shared, "alice")


@pytest.fixture(scope="session")
def mallory(shared: Stand) -> Person:
    return person(shared, "mallory")


@pytest.fixture
def stranger(shared: Stand) -> Iterator[httpx.Client]:
    """A client at an address of its own, so that what fails here counts for nobody else."""
    transport = httpx.HTTPTransport(local_address=next(ADDRESSES))
    with httpx.Client(base_url=shared.url, transport=transport, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def digits(shared_data: Path) -> list[bytes]:
    """Held-out pictures as PNG."""
    pictures = np.load(shared_data / "images" / "digits_test.npz")["x"]
    return [encode(picture)[0] for picture in (pictures[:, 0] * 255).round().astype(np.uint8)]
