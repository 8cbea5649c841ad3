"""What changes with a user reaches the SFTP backend: in order, again until it succeeds, and never in the user's way."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from app.accounts.credentials import SecretHasher
from app.accounts.errors import UserExists
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.accounts.service.audit_log import AuditLog
from app.bootstrap.accounts import MIGRATIONS
from app.homes import store
from app.homes.model import HomesOptions
from app.homes.service import Homes, listener
from app.homes.sftp.backend import SftpEndpoint, SftpOff, SftpUnavailable
from app.homes.sftp.builtin import BuiltinBackend
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.credentials import BadPublicKey, BadSftpPassword
from app.homes.sftp.sftpgo import SftpgoBackend, SftpgoOptions
from app.homes.store.tables import door_outbox
from app.kit.clock import from_text, now, to_text
from app.kit.sql import Database
from app.kit.sql.migrations import move, upgrade
from tests.standins.sftpgo import SftpgoStandin
from tests.unit.homes.service.test_sftp_accounts import KEY

LATER = timedelta(hours=1)


@pytest.fixture
def wakes() -> list[int]:
    return []


@pytest.fixture
def accounts(database: Database, wakes: list[int]) -> Accounts:
    return Accounts(database, SecretHasher("k"), on_change=[listener(wakes.append)])


@pytest.fixture
def homes(tmp_path: Path, database: Database, standin: SftpgoStandin) -> Iterator[Homes]:
    options = SftpgoOptions(standin.url, standin.admin, standin.password, "/private", "door.example", 2022)
    backend = SftpgoBackend(options)
    yield Homes(HomesOptions(tmp_path / "homes", quota_bytes=9), database, backend)
    backend.close()


# --- the outbox -------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_user_gets_a_home_and_an_account_at_the_next_pulse(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin
) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    assert not homes.sftp.facts("alice").state.is_done
    homes.outbox.apply_due(now())
    assert homes.sftp.facts("alice").state.is_done
    assert standin.users["alice"]["quota_size"] == 9  # the installation's
    assert (homes.options.root / "users" / "alice" / "datasets").is_dir()


def test_what_was_undone_is_never_told(accounts: Accounts, homes: Homes, wakes: list[int]) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    wakes.clear()
    with pytest.raises(UserExists):
        accounts.users.create("alice", Role.USER, by="admin")
    assert wakes == []
    assert homes.outbox.state("alice").waiting == 1


def test_a_change_sends_word_of_itself_at_once(accounts: Accounts, homes: Homes, wakes: list[int]) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    (entry_id,) = wakes
    assert homes.outbox.waiting()[0].entry_id == entry_id
    homes.outbox.apply_due(now(), entry_id=entry_id)
    assert homes.outbox.state("alice").is_done


def test_word_that_is_here_before_the_transaction_is_done_waits_for_it(
    homes: Homes, standin: SftpgoStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_asked = threading.Event()
    has_entry = store.has_entry

    def ask(conn: Connection, entry_id: int) -> bool:
        has_it = has_entry(conn, entry_id)
        has_asked.set()
        return has_it

    monkeypatch.setattr(store, "has_entry", ask)
    applying = threading.Thread(target=lambda: homes.outbox.apply_due(now(), entry_id=1))
    with homes.outbox.database.write() as conn:
        store.add_pending(conn, "alice", "created", None, "2026-01-01T00:00:00.000Z")
        applying.start()
        assert has_asked.wait(120)
    applying.join()
    assert "alice" in standin.users


def test_an_sftp_server_that_is_away_keeps_nobody_from_making_users_and_hears_all_later_in_order(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin
) -> None:
    homes.outbox.apply_due(now())  # the default quota is recorded
    standin.is_broken = True
    accounts.users.create("alice", Role.USER, by="admin")
    accounts.users.change("alice", by="admin", quota_bytes=5)
    accounts.users.change("alice", by="admin", is_enabled=False)
    homes.outbox.apply_due(now())
    state = homes.sftp.facts("alice").state
    assert state.waiting == 3
    assert "500" in (state.last_error or "")
    standin.is_broken = False
    homes.outbox.apply_due(now())
    assert homes.outbox.state("alice").waiting == 3  # not yet: it was tried a moment ago
    homes.outbox.apply_due(now() + LATER)
    assert homes.sftp.facts("alice").state.is_done
    assert (standin.users["alice"]["quota_size"], standin.users["alice"]["status"]) == (5, 0)


def test_the_pauses_grow(accounts: Accounts, homes: Homes, standin: SftpgoStandin) -> None:
    standin.is_broken = True
    accounts.users.create("alice", Role.USER, by="admin")
    pauses = []
    for _ in range(3):
        before = now()
        homes.outbox.apply_due(now() + 100 * LATER)
        entry = homes.outbox.waiting()[0]
        pauses.append(round((from_text(entry.next_try_at) - before).total_seconds() / 5))
    assert pauses == [1, 2, 4]


def test_an_sftp_server_that_is_away_is_asked_once_a_pass_and_not_for_every_user(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin
) -> None:
    standin.is_broken = True
    for number in range(5):
        accounts.users.create(f"user{number}", Role.USER, by="admin")
    homes.outbox.apply_due(now())
    assert len([request for request in standin.requests if request[0] == "POST"]) == 1


def test_telling_twice_does_no_harm(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin, database: Database
) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    entry = homes.outbox.waiting()[0]
    homes.outbox._apply(entry)  # and then a crash, before it was noted
    homes.outbox.apply_due(now())
    accounts.users.delete("alice", by="admin")
    entry = homes.outbox.waiting()[0]
    homes.outbox._apply(entry)
    homes.outbox.apply_due(now())
    assert standin.users == {}
    assert homes.outbox.state("alice").is_done
    assert (homes.options.root / "users" / "alice").is_dir()  # the files are nobody's, and stay


def test_an_account_that_was_deleted_in_sftpgo_is_made_again_when_its_user_is_enabled(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin
) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    homes.outbox.apply_due(now())
    standin.users.clear()
    accounts.users.change("alice", by="admin", is_enabled=False)
    homes.outbox.apply_due(now())
    assert homes.outbox.state("alice").is_done
    accounts.users.change("alice", by="admin", is_enabled=True)
    homes.outbox.apply_due(now())
    assert "alice" in standin.users


def test_another_sftp_server_gets_the_accounts_of_users_that_are_there_already(
    tmp_path: Path, accounts: Accounts, database: Database, homes: Homes, standin: SftpgoStandin
) -> None:
    embedded = Homes(
        HomesOptions(tmp_path / "homes", quota_bytes=9), database, BuiltinBackend(database, host="here", port=1)
    )
    for name in ("alice", "bob"):
        accounts.users.create(name, Role.USER, by="admin")
    embedded.outbox.apply_due(now())
    accounts.users.change("bob", by="admin", is_enabled=False)
    embedded.outbox.apply_due(now())
    assert standin.users == {}

    homes.outbox.apply_due(now())
    assert list(standin.users) == ["alice"] and standin.users["alice"]["quota_size"] == 9
    assert homes.sftp.reset_password("alice", by="admin")
    standin.requests.clear()
    homes.outbox.apply_due(now())
    assert standin.requests == []


def test_keys_and_passwords_of_the_embedded_server_end_with_a_change_to_another(
    tmp_path: Path, accounts: Accounts, database: Database, homes: Homes
) -> None:
    embedded = Homes(HomesOptions(tmp_path / "homes"), database, BuiltinBackend(database, host="here", port=1))
    accounts.users.create("alice", Role.USER, by="admin")
    embedded.outbox.apply_due(now())
    embedded.sftp.set_keys("alice", [KEY], by="alice")
    with database.read() as conn:
        password_hash = store.get_account(conn, "alice").password_hash  # type: ignore[union-attr]

    homes.outbox.apply_due(now())
    with database.read() as conn:
        assert store.get_account(conn, "alice") is None
    embedded.outbox.apply_due(now())
    with database.read() as conn:
        account = store.get_account(conn, "alice")
    assert account is not None and account.is_one_time
    assert account.keys == () and account.password_hash != password_hash


@pytest.mark.slow
def test_several_at_once_tell_each_change_once(accounts: Accounts, homes: Homes, standin: SftpgoStandin) -> None:
    for number in range(10):
        accounts.users.create(f"user{number}", Role.USER, by="admin")
    threads = [threading.Thread(target=homes.outbox.apply_due, args=(now(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    homes.outbox.apply_due(now())
    assert len(standin.users) == 10
    assert len([request for request in standin.requests if request[0] == "POST"]) == 10


def test_only_one_at_a_time_changes_an_account(homes: Homes) -> None:
    with homes.outbox.lease("alice"):
        with pytest.raises(SftpUnavailable), homes.outbox.lease("alice", wait_s=0):
            pass
        with homes.outbox.lease("bob", wait_s=0):
            pass
    with homes.outbox.lease("alice", wait_s=0):
        pass


@pytest.mark.slow
def test_users_from_before_there_were_homes_get_theirs(database: Database, homes: Homes) -> None:
    move(database, MIGRATIONS, "0001")
    columns = [sa.column(name) for name in ("name", "role", "is_enabled", "quota_bytes", "created_at")]
    users = (("alice", "user", True, None, to_text(now())), ("bob", "user", False, 5, to_text(now())))
    with database.write() as conn:
        conn.execute(sa.insert(sa.table("users", *columns)).values(users))
    upgrade(database, MIGRATIONS)
    assert [(entry.user, entry.event) for entry in homes.outbox.waiting()] == [
        ("alice", "created"),
        ("bob", "created"),
        ("bob", "disabled"),
    ]
    homes.outbox.apply_due(now())
    assert homes.outbox.waiting() == []


@pytest.mark.parametrize("is_embedded", [True, False], ids=["embedded", "sftpgo"])
def test_a_new_default_quota_reaches_accounts_without_their_own_once(
    is_embedded: bool, accounts: Accounts, homes: Homes, standin: SftpgoStandin, database: Database
) -> None:
    backend = BuiltinBackend(database, host="h", port=1) if is_embedded else homes.outbox.backend

    def apply_with(size_bytes: int, files: int) -> list[tuple[int, int | None]]:
        """The quotas of the accounts after a pulse of a scheduler that was started with this default."""
        options = HomesOptions(homes.options.root, quota_bytes=size_bytes, quota_files=files)
        Homes(options, database, backend).outbox.apply_due(now())
        if not is_embedded:
            return [(user["quota_size"], user["quota_files"]) for _, user in sorted(standin.users.items())]
        with database.read() as conn:
            present = [store.get_account(conn, name) for name in ("alice", "bob", "carol", "dave")]
        return [(account.quota_bytes, account.quota_files) for account in present if account is not None]

    def last_entry_id() -> int:
        with database.read() as conn:
            return int(conn.execute(sa.select(sa.func.max(door_outbox.c.entry_id))).scalar_one())

    accounts.users.create("alice", Role.USER, by="admin")
    accounts.users.create("bob", Role.USER, by="admin", quota_bytes=5)
    accounts.users.create("carol", Role.USER, by="admin", quota_files=6)
    accounts.users.create("dave", Role.USER, by="admin", quota_bytes=0, quota_files=0)
    assert apply_with(100, 200) == [(100, 200), (5, 200), (100, 6), (0, 0)]
    assert apply_with(10, 20) == [(10, 20), (5, 20), (10, 6), (0, 0)]
    assert homes.outbox.waiting() == []
    entry_id = last_entry_id()
    apply_with(10, 20)
    assert last_entry_id() == entry_id
    assert apply_with(10, 30) == [(10, 30), (5, 30), (10, 6), (0, 0)]


def test_a_default_quota_that_another_process_has_just_sent_is_not_sent_again(
    accounts: Accounts, homes: Homes, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    homes.outbox.apply_due(now())
    with database.read() as conn:
        entries = conn.execute(sa.select(door_outbox)).all()
    present = store.facts

    def read_before(_: Connection) -> dict[str, str]:
        """As before the other process has sent it, once."""
        monkeypatch.setattr(store, "facts", present)
        return {}

    monkeypatch.setattr(store, "facts", read_before)
    homes.outbox.apply_due(now())
    with database.read() as conn:
        assert conn.execute(sa.select(door_outbox)).all() == entries


# --- what users and administrators do ---------------------------------------------------------------
def test_a_one_time_password_is_told_once_and_can_be_asked_for_right_after_the_user_was_made(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin, database: Database
) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    password = homes.sftp.reset_password("alice", by="admin")
    assert homes.sftp.facts("alice").needs_new_password
    assert password not in str(homes.sftp.facts("alice"))
    assert password not in str(AuditLog(database).entries())
    homes.sftp.set_password("alice", "my own password", by="alice")
    assert standin.logs_in("alice", "my own password")
    assert [entry.action for entry in AuditLog(database).entries(limit=2)] == [
        "door.password_set",
        "door.password_reset",
    ]


def test_the_password_that_a_new_user_is_given_opens_once_the_sftp_server_has_heard_of_it(
    accounts: Accounts, tmp_path: Path, database: Database
) -> None:
    homes = Homes(HomesOptions(tmp_path / "homes"), database, BuiltinBackend(database, host="h", port=1))
    _, password = accounts.users.create("alice", Role.USER, by="admin")
    assert password is not None
    homes.outbox.apply_due(now())
    account = SftpAuthenticator(database).check("alice", password).account
    assert account is not None and account.is_one_time
    assert password not in str(AuditLog(database).entries())
    with database.read() as conn:
        kept = conn.execute(sa.select(door_outbox.c.password_hash)).scalars().all()
    assert kept == [None]  # the backend has it


def test_while_the_sftp_server_is_away_the_facts_still_come_and_a_password_is_not_set(
    accounts: Accounts, homes: Homes, standin: SftpgoStandin
) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    standin.is_broken = True
    facts = homes.sftp.facts("alice")
    assert (facts.keys, facts.needs_new_password) == (None, None)
    assert facts.endpoint == SftpEndpoint("door.example", 2022, "alice", "")
    with pytest.raises(SftpUnavailable):
        homes.sftp.reset_password("alice", by="admin")


@pytest.mark.parametrize("password", ["short", "x" * 200, "aaaaaaaaaaaaaa", "with\nnew line"])
def test_a_weak_password_is_refused(accounts: Accounts, homes: Homes, password: str) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    with pytest.raises(BadSftpPassword):
        homes.sftp.set_password("alice", password, by="alice")


def test_keys_are_kept_in_one_form_and_bad_ones_refused(accounts: Accounts, homes: Homes, tmp_path: Path) -> None:
    accounts.users.create("alice", Role.USER, by="admin")
    for kind in ("ed25519", "rsa"):
        bits = ["-b", "1024"] if kind == "rsa" else []
        command = ["ssh-keygen", "-q", "-t", kind, *bits, "-N", "", "-C", "my key", "-f", str(tmp_path / kind)]
        if subprocess.run(command, check=False).returncode:
            pytest.skip("ssh-keygen is needed")
    good = (tmp_path / "ed25519.pub").read_text()
    assert homes.sftp.set_keys("alice", [f"  {good}\n", good], by="alice") == [good.strip()]
    assert homes.sftp.facts("alice").keys == [good.strip()]
    for bad in (
        (tmp_path / "ed25519").read_text(),
        (tmp_path / "rsa.pub").read_text(),
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        f'command="id" {good}',
        good * 2,
        "x" * 10000,
    ):
        with pytest.raises(BadPublicKey):
            homes.sftp.set_keys("alice", [bad], by="alice")
    assert homes.sftp.facts("alice").keys == [good.strip()]


def test_without_an_sftp_server_there_are_homes_all_the_same_and_no_password(
    tmp_path: Path, database: Database
) -> None:
    homes = Homes(HomesOptions(tmp_path / "homes"), database, None)
    without_sftp = Accounts(database, SecretHasher("k"), on_change=[listener(has_sftp=False)])
    assert without_sftp.users.create("alice", Role.USER, by="admin")[1] is None
    homes.outbox.apply_due(now())
    assert homes.files.browse("alice").entries
    assert not homes.sftp.is_on
    with pytest.raises(SftpOff):
        homes.sftp.facts("alice")


def test_a_disabled_user_is_shut_out_before_the_sftp_server_was_told(
    accounts: Accounts, tmp_path: Path, database: Database
) -> None:
    backend = BuiltinBackend(database, host="h", port=1)
    homes = Homes(HomesOptions(tmp_path / "homes"), database, backend)
    accounts.users.create("alice", Role.USER, by="admin")
    homes.sftp.set_password("alice", "my own password", by="alice")
    book = SftpAuthenticator(database)
    assert book.check("alice", "my own password").account
    accounts.users.change("alice", by="admin", is_enabled=False)
    assert book.check("alice", "my own password").account is None
    assert book.accounts({"alice"}) == {}
