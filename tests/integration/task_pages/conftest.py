"""A service that trains on a cluster by name only, and somebody who has a task in every state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.deployment import Deployment
from tests.harness.training import tasks as task_scenes
from tests.harness.training.tasks import every_state, show_cluster
from tests.harness.users import OURS, Person, person


@pytest.fixture(scope="package")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """With a cluster by name only: nothing here asks it."""
    with Deployment(tmp_path_factory.mktemp("tasks"), accounts="true", ray_address="http://127.0.0.1:9") as deployment:
        deployment.web()
        yield deployment


@pytest.fixture(scope="package")
def alice_here(deployment: Deployment) -> Person:
    return person(deployment, "alice")


@pytest.fixture(scope="package")
def ids(deployment: Deployment, alice_here: Person) -> dict[str, str]:
    with alice_here.browser() as client:
        client.get("/ui/data/files").raise_for_status()  # makes the home
    return every_state(deployment, alice_here.name)


@pytest.fixture
def web(alice_here: Person) -> Iterator[httpx.Client]:
    with alice_here.browser() as client:
        client.headers.update(OURS)
        yield client


@pytest.fixture
def bob(deployment: Deployment) -> Iterator[httpx.Client]:
    """Somebody who has no task but those that a test gives him."""
    with person(deployment, "bob").browser() as client:
        client.headers.update(OURS)
        yield client


@pytest.fixture
def files(deployment: Deployment, ids: dict[str, str]) -> Path:
    """The data that FORM names."""
    folder = deployment.settings().homes / "users/alice/datasets"
    for name in ("train.parquet", "test.parquet"):
        (folder / name).write_bytes(b"rows")
    return folder


@pytest.fixture(autouse=True)
def seen_cluster(deployment: Deployment, ids: dict[str, str]) -> None:
    show_cluster(deployment, task_scenes.cluster("alice", ids))
