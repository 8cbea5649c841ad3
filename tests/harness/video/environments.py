"""A web of video within the process of the tests, and what each test begins with. Import the fixtures to have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.bootstrap.container import Container
from tests.harness.users import Within, within
from tests.harness.valkey import Valkey
from tests.harness.video.nodes import Env
from tests.harness.video.web import emptied, settings_in


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[Within]:
    with within(settings_in(tmp_path_factory.mktemp("web"), shared_valkey)) as made:
        yield made


@pytest.fixture
def container(web: Within) -> Container:
    """The web's, without anything that another test has left."""
    made: Container = web.app.state.container
    emptied(made)
    return made


@pytest.fixture
def env(container: Container) -> Env:
    return Env(container)
