"""A service that trains on a cluster by name only, and somebody who has a task in every state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ops.stand import Stand
from tests.integration import task_scenes
from tests.integration.people import OURS, Person, person
from tests.integration.task_scenes import every_state, show_cluster


@pytest.fixture(scope="package")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """With a cluster by name only: nothing here asks it."""
    with Stand(tmp_path_factory.mktemp("tasks"), accounts="true", ray_address="http://127.0.0.1:9") as stand:
        stand.web()
        yield stand


@pytest.fixture(scope="package")
def alice_here(stand: Stand) -> Person:
    return person(stand, "alice")


@pytest.fixture(scope="package")
def ids(stand: Stand, alice_here: Person) -> dict[str, str]:
    with alice_here.browser() as client:
        client.get("/ui/data/files").raise_for_status()  # makes the home
    return every_state(stand, alice_here.name)


@pytest.fixture
def web(alice_here: Person) -> Iterator[httpx.Client]:
    with alice_here.browser() as client:
        client.headers.update(OURS)
        yield client


@pytest.fixture
def bob(stand: Stand) -> Iterator[httpx.Client]:
    """Somebody who has no task but those that a test gives him."""
    with person(stand, "bob").browser() as client:
        client.headers.update(OURS)
        yield client


@pytest.fixture
def files(stand: Stand, ids: dict[str, str]) -> Path:
    """The data that FORM names."""
    folder = stand.settings().homes / "users/alice/datasets"
    for name in ("train.parquet", "test.parquet"):
        (folder / name).write_bytes(b"rows")
    return folder


@pytest.fixture(autouse=True)
def seen_cluster(stand: Stand, ids: dict[str, str]) -> None:
    show_cluster(stand, task_scenes.cluster("alice", ids))
