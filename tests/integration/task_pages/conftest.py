"""A service that trains on a cluster by name only, and somebody who has a task in every state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.deployment import Deployment
from tests.harness.training import tasks as task_scenes
from tests.harness.training.tasks import empty_line, every_state, show_cluster
from tests.harness.users import Person, person


@pytest.fixture(scope="session")
def deployment(shared: Deployment) -> Deployment:
    """With a cluster by name only: nothing here asks it."""
    return shared


@pytest.fixture(scope="session")
def erin(deployment: Deployment) -> Person:
    return person(deployment, "erin")


@pytest.fixture(scope="session")
def ids(deployment: Deployment, erin: Person) -> dict[str, str]:
    with erin.browser() as client:
        client.get("/ui/data/files").raise_for_status()  # makes the home
    empty_line(deployment)
    return every_state(deployment, erin.name)


@pytest.fixture
def web(erin: Person) -> Iterator[httpx.Client]:
    with erin.browser() as client:
        yield client


@pytest.fixture
def finn(deployment: Deployment) -> Iterator[httpx.Client]:
    """Somebody who has no task but those that a test gives him."""
    with person(deployment, "finn").browser() as client:
        yield client


@pytest.fixture
def files(deployment: Deployment, ids: dict[str, str]) -> Path:
    """The data that FORM names."""
    folder = deployment.settings().homes / "users/erin/datasets"
    for name in ("train.parquet", "test.parquet"):
        (folder / name).write_bytes(b"rows")
    return folder


@pytest.fixture(autouse=True)
def seen_cluster(deployment: Deployment, ids: dict[str, str]) -> Iterator[None]:
    show_cluster(deployment, task_scenes.cluster("erin", ids))
    yield
    show_cluster(deployment, None)
