"""One suite over both databases: what is remembered of homes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.bootstrap.accounts import MIGRATIONS
from app.homes import store
from app.homes.model import HomesOptions
from app.homes.service import Homes, listener
from app.homes.sftp.builtin import BuiltinBackend
from app.kit.clock import now
from app.kit.sql import Database
from app.kit.sql.migrations import move, upgrade
from tests.harness.databases import database, empty, url

__all__ = ["database", "empty", "url"]
END = datetime(2026, 11, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
AT, LATER = "2026-11-01T12:00:00.000Z", "2026-11-01T13:00:00.000Z"


@pytest.fixture
def homes(tmp_path: Path, database: Database) -> Homes:
    return Homes(HomesOptions(tmp_path / "homes"), database, BuiltinBackend(database, host="h", port=1))


@pytest.fixture
def accounts(homes: Homes, database: Database) -> Accounts:
    return Accounts(database, SecretHasher("k"), on_change=[listener()])


def test_a_user_s_sftp_account_follows_the_user(homes: Homes, accounts: Accounts, database: Database) -> None:
    accounts.users.create("alice", Role.USER, by="test", quota_bytes=5)
    assert [entry.event for entry in homes.outbox.waiting()] == ["created"]
    homes.outbox.apply_due(now())
    with database.read() as conn:
        account = store.get_account(conn, "alice")
    assert account is not None
    assert (account.home, account.quota_bytes, account.is_enabled) == ("users/alice", 5, True)
    homes.sftp.set_password("alice", "my own password", by="alice")
    accounts.users.delete("alice", by="test")
    homes.outbox.apply_due(now())
    with database.read() as conn:
        assert store.get_account(conn, "alice") is None


def test_the_oldest_change_of_a_user_holds_back_the_later_ones_and_no_other_user(
    homes: Homes, database: Database
) -> None:
    with database.write() as conn:
        for user, event in (("alice", "created"), ("alice", "disabled"), ("bob", "created")):
            store.add_pending(conn, user, event, None, AT)
        assert store.users_due(conn, AT) == ["alice", "bob"]
        store.pending_failed(conn, store.pending(conn, user="alice")[0], next_try_at=LATER, error="why")
        assert store.users_due(conn, AT) == ["bob"]
        assert store.users_due(conn, LATER) == ["alice", "bob"]
        store.complete_pending(conn, store.pending(conn, user="bob")[0], AT)
        assert [entry.user for entry in store.pending(conn)] == ["alice", "alice"]


def test_folders_go_through_the_trash(homes: Homes) -> None:
    homes.files.create("alice")
    for number in range(60):
        homes.folders.begun("alice", f"run-{number}", now=END - DAY)
        (homes.options.root / "users" / "alice" / "jobs" / f"run-{number}").mkdir()
        homes.folders.ended("alice", f"run-{number}", END)
    homes.folders.begun("alice", "runs-still", now=END)
    homes.clear(END + 3 * DAY)
    assert [times.is_trashed for times in homes.folders.times("alice")] == [True] * 60 + [False]
    homes.clear(END + 10 * DAY)
    assert [times.name for times in homes.folders.times("alice")] == ["runs-still"]


def test_the_version_before_can_be_gone_back_to(homes: Homes, database: Database) -> None:
    move(database, MIGRATIONS, "0001")
    upgrade(database, MIGRATIONS)
    assert homes.outbox.waiting() == []
