"""Real servers for the tests: one Valkey per session, emptied for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.settings import Settings
from app.wiring import Parts, assemble
from ops.stand import Stand, Valkey

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = Valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.kill()


@pytest.fixture
def valkey(shared_valkey: Valkey) -> Valkey:
    shared_valkey.client.flushall()
    return shared_valkey


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A server for the tests that kill it."""
    server = Valkey(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def settings(valkey: Valkey, tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path / "data", redis_url=valkey.url(0), node_name="here", secret_key=SecretStr("a secret")
    )


@pytest.fixture
def parts(settings: Settings) -> Iterator[Parts]:
    made = assemble(settings)
    yield made
    made.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """The whole product, its processes started as an operator starts them: one worker per stage, filesystem store."""
    with Stand(tmp_path_factory.mktemp("service")) as stand:
        stand.workers("actors", onnx=1, bie=1, nef=1, done=1)
        stand.web()
        yield stand
