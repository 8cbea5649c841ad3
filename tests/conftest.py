"""Real servers for the tests: one Valkey per session, emptied for each test."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.bootstrap.container import Container, assemble
from app.homes.path_openers import KernelOpener, Opener, StepOpener, best_opener
from app.kit.sql import Database, Sealer
from app.settings import Settings
from tests.harness.deployment import Deployment
from tests.harness.forked import share_first_process
from tests.harness.migrated import migrated, migrated_file
from tests.harness.paths import SHARED_DATA
from tests.harness.postgres import PostgresServer, shared_postgres_server
from tests.harness.reuse import (
    collect_constants,
    hash_quickly,
    keep_statements,
    look_up_redis_once,
    read_set_variables,
    share_authorities,
    share_fork_server,
    share_templates,
)
from tests.harness.s3_server import S3Server, shared_s3_server
from tests.harness.surroundings import forget_surroundings, take_any_time
from tests.harness.valkey import Valkey

pytest_plugins = ("tests.harness.collection", "tests.harness.durations", "tests.harness.parallel")
share_authorities()
hash_quickly()
keep_statements()
read_set_variables()
look_up_redis_once()
begin_fork_server = share_fork_server()
forget_surroundings()
take_any_time()
Deployment.sandbox_idle_s = "3600"  # most of them convert nothing, and half a second of the processor is saved for each
os.environ["MODELMILL_CACHE_MAX_BYTES"] = "0"  # tests convert the same model again and again, and want it done


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without Ray its tests are skipped, but fail in CI."""
    if not item.get_closest_marker("ray") or importlib.util.find_spec("ray") is not None:
        return
    missing = "There is no Ray: pip install -r ops/requirements-train.lock"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The processes of a run share what they would have one each of."""
    if session.config.getoption("--processes") > 1:
        begin_fork_server()
        share_templates()
        migrated()
        if "schemathesis" in sys.modules:
            collect_constants()
        if any("tests/unit/" not in item.nodeid for item in session.items):
            share_first_process()


_folders = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, without its link to the newest folder of each name, which costs more than the folder."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_folders)}", numbered=False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real models and pictures beside the repository, which are never copied into it."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real models are needed: {SHARED_DATA} is not there")
    return SHARED_DATA


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
    """With a database that is there already, and empty."""
    migrated_file(tmp_path / "data" / "modelmill.db")
    return Settings(
        data_dir=tmp_path / "data", redis_url=valkey.url(0), node_name="here", secret_key=SecretStr("a secret")
    )


@pytest.fixture
def container(settings: Settings) -> Iterator[Container]:
    made = assemble(settings)
    yield made
    made.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty one of this version, on SQLite."""
    migrated_file(tmp_path / "db")
    made = Database(f"sqlite:///{tmp_path / 'db'}", Sealer("a secret"))
    yield made
    made.close()


@pytest.fixture(params=[KernelOpener, StepOpener], ids=["openat2", "step by step"])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Each way to open a file beneath a folder."""
    if request.param is KernelOpener and not isinstance(best_opener(), KernelOpener):
        pytest.skip("this kernel has no openat2")
    return request.param()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all processes of the run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def s3_server(run_folder: Path) -> Iterator[S3Server]:
    """One for all processes of the run. Each test takes a bucket or a prefix of its own."""
    with shared_s3_server(run_folder) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(run_folder: Path) -> Iterator[PostgresServer]:
    """One for all processes of the run. Each test takes a database of its own."""
    with shared_postgres_server(run_folder) as server:
        yield server


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The whole product with the processes that an operator starts: one worker per stage, filesystem store."""
    with Deployment(tmp_path_factory.mktemp("service")) as deployment:
        deployment.whole()
        yield deployment
