"""The built-in SFTP server with an account of PostgreSQL that may do what deployment.md grants it, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from app.bootstrap.accounts import MIGRATIONS
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.kit.sql import Database
from app.kit.sql.errors import WrongDatabaseVersion
from app.kit.sql.migrations import move, require_current, upgrade
from tests.harness.paths import REPOSITORY
from tests.harness.postgres import PostgresServer, postgres_server
from tests.harness.sftp import SftpServer, has_client

pytestmark = [
    pytest.mark.sftp,
    pytest.mark.postgres,
    pytest.mark.skipif(not has_client(), reason="OpenSSH's client is not installed"),
]
PASSWORD = "another password"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def own_url(postgres: PostgresServer) -> str:
    """Of the server's account, made as the document says, on a database that is brought up."""
    url = postgres.new_database()
    database = Database(url)
    upgrade(database, MIGRATIONS)
    database.close()
    match = re.search(r"```sql\n(.*?)```", (REPOSITORY / "docs" / "deployment.md").read_text(), re.DOTALL)
    assert match
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(match.group(1).encode())
    return url.replace(url.partition("@")[0], f"postgresql://modelmill_sftp:{PASSWORD.replace(' ', '%20')}")


@pytest.fixture(scope="module")
def server(postgres: PostgresServer, own_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    everybodys = postgres.url(own_url.rpartition("/")[2])
    deployment = SftpServer(tmp_path_factory.mktemp("sftp"), database_url=everybodys, sftp_database_url=own_url)
    yield deployment
    deployment.close()


def test_users_come_in_by_key(server: SftpServer, tmp_path: Path) -> None:
    home = server.user("anna")
    (tmp_path / "file").write_text("x")
    server.batch("anna", f"put {tmp_path / 'file'} datasets/file")
    assert (home / "datasets" / "file").read_text() == "x"


def test_a_one_time_password_is_changed(server: SftpServer, own_url: str) -> None:
    server.user("berta", has_key=False)
    one_time = server.homes.sftp.reset_password("berta", by="admin")
    database = Database(own_url)
    assert SftpAuthenticator(database).change("berta", one_time, "my own password 1").problem == ""
    database.close()
    assert server.with_password("berta", "my own password 1", "ls").returncode == 0


def test_it_reads_no_tokens_and_makes_no_users(own_url: str) -> None:
    statements = (
        "SELECT * FROM api_tokens",
        "SELECT secret_hash FROM api_tokens",
        "DELETE FROM door_accounts",
        "INSERT INTO users (name) VALUES ('eve')",
        "UPDATE door_accounts SET home = '/'",
        "CREATE TABLE own (x int)",
    )
    for statement in statements:
        with (
            psycopg.connect(own_url) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement.encode())


def test_who_may_not_upgrade_is_told_of_another_version(postgres: PostgresServer) -> None:
    database = Database(postgres.new_database())
    with pytest.raises(WrongDatabaseVersion, match="of version none"):
        require_current(database, MIGRATIONS)
    upgrade(database, MIGRATIONS)
    require_current(database, MIGRATIONS)
    move(database, MIGRATIONS, "0001")
    with pytest.raises(WrongDatabaseVersion, match="of version 0001"):
        require_current(database, MIGRATIONS)
    database.close()
