"""Fixtures of the integration tests: clients of the running service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.inference.picture_codec import encode
from app.settings import Settings
from tests.harness.api import Api
from tests.harness.deployment import Deployment
from tests.harness.kubectl import installed_kubectl
from tests.harness.reuse import build_commands_once, describe_once
from tests.harness.training.scheduler import RAY, make_common
from tests.harness.users import ADDRESSES, Person, Within, person, within

build_commands_once()
describe_once()


@pytest.fixture
def api(service: Deployment) -> Iterator[Api]:
    with Api(service.url) as client:
        yield client


@pytest.fixture
def page(service: Deployment) -> Iterator[httpx.Client]:
    """Asks for pages, as a browser does."""
    headers = {"Origin": service.url, "Accept": "text/html", "Accept-Language": "en"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as client:
        yield client


@pytest.fixture
def web(settings: Settings) -> Iterator[Within]:
    """The web in this process, of which a test may look at the services."""
    with within(settings) as client:
        yield client


@pytest.fixture
def web_container(web: Within) -> Container:
    """Its services."""
    return web.app.state.container  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The whole product where accounts are demanded."""
    with Deployment(tmp_path_factory.mktemp("shared"), accounts="true", ray_address=RAY) as deployment:
        deployment.whole()
        make_common(deployment.settings().homes)
        yield deployment


@pytest.fixture(scope="session")
def kubectl_program() -> str:
    return installed_kubectl()


@pytest.fixture(scope="session")
def admin(shared: Deployment) -> Person:
    return person(shared, "root-admin", Role.ADMIN)


@pytest.fixture(scope="session")
def alice(shared: Deployment) -> Person:
    return person(shared, "alice")


@pytest.fixture(scope="session")
def mallory(shared: Deployment) -> Person:
    return person(shared, "mallory")


@pytest.fixture
def stranger(shared: Deployment) -> Iterator[httpx.Client]:
    """A client at an address of its own, so that what fails here counts for nobody else."""
    transport = httpx.HTTPTransport(local_address=next(ADDRESSES))
    with httpx.Client(base_url=shared.url, transport=transport, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def digits(shared_data: Path) -> list[bytes]:
    """Held-out pictures as PNG."""
    pictures = np.load(shared_data / "images" / "digits_test.npz")["x"]
    return [encode(picture)[0] for picture in (pictures[:, 0] * 255).round().astype(np.uint8)]
