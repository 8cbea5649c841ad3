"""One suite over both databases: their versions, and that nothing gets lost when many write or are killed."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from app.accounts.errors import UserExists
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.accounts.store.tables import audit, users
from app.bootstrap.accounts import MIGRATIONS
from app.bootstrap.capabilities import CAPABILITIES
from app.kit.sql import Database, metadata, migrations
from app.kit.sql.errors import DatabaseUnavailable, WrongDatabaseVersion
from tests.harness.databases import accounts, database, empty, own, together, url
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port

__all__ = ["accounts", "database", "empty", "url"]
WRITERS = 8
EACH = 10
WRITING = """
import sys
from app.accounts.model import Role
from app.accounts.credentials import SecretHasher
from app.accounts.service import Accounts
from app.kit.sql import Database
accounts = Accounts(Database(sys.argv[1]), SecretHasher("k"))
number = 0
while True:
    accounts.users.create(f"u{sys.argv[2]}-{number}", Role.USER, by="test")
    number += 1
    print(number, flush=True)
"""


# --- versions -----------------------------------------------------------------------------------------
def test_the_versions_make_the_tables_that_are_declared(database: Database) -> None:
    for capability in CAPABILITIES:
        for module in capability.tables:
            importlib.import_module(module)
    with database.read() as conn:
        assert compare_metadata(MigrationContext.configure(conn, opts={"compare_type": True}), metadata) == []


def test_every_version_can_be_left_and_entered_again(empty: Database) -> None:
    migrations.upgrade(empty, MIGRATIONS)
    newest = migrations.current(empty)
    migrations.move(empty, MIGRATIONS, "base")
    with empty.read() as conn:
        assert set(sa.inspect(conn).get_table_names()) <= {"alembic_version"}
    assert migrations.current(empty) is None
    migrations.upgrade(empty, MIGRATIONS)
    assert migrations.current(empty) == newest


def test_a_database_from_the_future_is_refused_and_left_alone(database: Database) -> None:
    with database.write() as conn:
        conn.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(WrongDatabaseVersion, match="9999"):
        migrations.upgrade(database, MIGRATIONS)
    assert migrations.current(database) == "9999"


def test_of_several_that_bring_it_up_at_once_all_find_it_done(url: str, empty: Database) -> None:
    def bring_up(_: int) -> None:
        with own(url) as mine:
            migrations.upgrade(mine.database, MIGRATIONS)

    problems = together(bring_up, 4)
    assert problems == []
    assert migrations.current(empty) is not None


def test_a_new_file_that_another_is_just_writing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.3, other.rollback)
        end.start()
        try:
            with contextlib.closing(Database(f"sqlite:///{path}")) as database:
                database.check()
        finally:
            end.join()


# --- under strain -------------------------------------------------------------------------------------
def test_many_who_write_at_once_lose_nothing(accounts: Accounts, url: str) -> None:
    def write(writer: int) -> None:
        with own(url) as mine:
            for number in range(EACH):
                mine.users.create(f"u{writer}-{number}", Role.USER, by="test")

    assert together(write, WRITERS) == []
    assert len(accounts.users.page(limit=1000)) == WRITERS * EACH + 1
    assert len(accounts.audit_log.entries(limit=1000)) == WRITERS * EACH + 1


def test_of_many_who_create_the_same_user_at_once_one_does(accounts: Accounts, url: str) -> None:
    def create(_: int) -> None:
        with own(url) as mine:
            mine.users.create("alice", Role.USER, by="test")

    problems = together(create, WRITERS)
    assert [type(problem) for problem in problems] == [UserExists] * (WRITERS - 1)


def test_writers_killed_in_the_middle_leave_a_whole_database(accounts: Accounts, url: str) -> None:
    for round_ in range(2):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITING, url, f"{round_}-{number}"], cwd=REPOSITORY, stdout=subprocess.PIPE
            )
            for number in range(3)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() and writer.stdout.readline()
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
    with accounts.database.read() as conn:
        if accounts.database.is_sqlite:
            assert conn.execute(sa.text("PRAGMA integrity_check")).scalar_one() == "ok"
        written = conn.execute(sa.select(sa.func.count()).select_from(users)).scalar_one()
        noted = conn.execute(sa.select(sa.func.count()).select_from(audit)).scalar_one()
    assert written == noted >= 13
    accounts.users.create("afterwards", Role.USER, by="test")


def test_a_database_that_is_away_says_so_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    database = Database(f"postgresql://somebody:pass-7f3a9c@127.0.0.1:{free_port()}/x")
    with pytest.raises(DatabaseUnavailable) as raised:
        database.check()
    assert raised.value.status == 503
    assert caplog.text and "7f3a9c" not in caplog.text + str(raised.value.to_dict())
