"""Both databases for the contract tests, empty or brought up, and what many do to one at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.kit.errors import ModelmillError
from app.kit.sql import Database, Sealer
from tests.harness.migrated import migrated_file
from tests.harness.postgres import PostgresServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty one; of one that is brought up where the test wants a `database`."""
    is_up = "database" in request.fixturenames
    if request.param == "sqlite":
        file = tmp_path / "db" / "modelmill.db"
        if is_up:
            migrated_file(file)
        return f"sqlite:///{file}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.migrated_database() if is_up else server.new_database()


@pytest.fixture
def empty(url: str) -> Iterator[Database]:
    database = Database(url, Sealer("a key"))
    yield database
    database.close()


@pytest.fixture
def database(empty: Database) -> Database:
    """Brought up, and new."""
    return empty


@pytest.fixture
def accounts(database: Database) -> Accounts:
    made = Accounts(database, SecretHasher("a key"))
    made.users.create("root-admin", Role.ADMIN, by="test")
    return made


@contextmanager
def own(url: str) -> Iterator[Accounts]:
    """As another process has it."""
    database = Database(url, Sealer("a key"))
    try:
        yield Accounts(database, SecretHasher("a key"))
    finally:
        database.close()


def together(work: Callable[[int], object], count: int) -> list[ModelmillError]:
    """Do it so often at once. What was raised."""
    problems: list[ModelmillError] = []
    start = threading.Barrier(count)

    def one(at: int) -> None:
        start.wait()
        try:
            work(at)
        except ModelmillError as error:
            problems.append(error)

    threads = [threading.Thread(target=one, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems
