"""One suite over both databases: what is remembered of users, tokens and sessions, and the rules that hold for them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from app.accounts import store
from app.accounts.credentials import SecretHasher
from app.accounts.errors import (
    BadGroupName,
    LastAdmin,
    NameWasUsed,
    TokenNotFound,
    TokenRefused,
    UserExists,
    UserIsBusy,
)
from app.accounts.model import Role, Scope, Token, User
from app.accounts.service import Accounts, ActiveWork
from app.accounts.store.tables import api_tokens, sessions
from app.kit.access import Member
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError
from app.kit.sql import Database, metadata
from tests.harness.databases import accounts, database, empty, own, together, url

__all__ = ["accounts", "database", "empty", "url"]


# --- users --------------------------------------------------------------------------------------------
def test_a_user_is_created_once_changed_and_deleted(accounts: Accounts) -> None:
    made, _ = accounts.users.create("alice", Role.USER, by="root-admin", quota_bytes=10)
    assert accounts.users.get("alice") == made
    with pytest.raises(UserExists):
        accounts.users.create("alice", Role.ADMIN, by="root-admin")
    changed = accounts.users.change("alice", by="root-admin", role=Role.ADMIN, quota_bytes=None)
    assert (changed.role, changed.quota_bytes) == (Role.ADMIN, None)
    accounts.users.delete("alice", by="root-admin")
    assert [user.name for user, _ in accounts.users.page()] == ["root-admin"]
    actions = [entry.action for entry in accounts.audit_log.entries(subject="user:alice")]
    assert actions == ["user.deleted", "user.quota_bytes", "user.role", "user.created"]


def test_groups_are_a_users_and_lists_of_who_may_use_a_thing_know_them(accounts: Accounts) -> None:
    accounts.users.create("alice", Role.USER, by="test")
    assert accounts.users.get("alice").groups == ()
    changed = accounts.users.change("alice", by="root-admin", groups=["night", "lab", "lab"])
    assert changed.groups == accounts.users.get("alice").groups == ("lab", "night")
    assert accounts.users.member("alice") == Member("alice", ("lab", "night"))
    assert accounts.users.member("root-admin").is_admin
    assert accounts.users.member("nobody") == Member("nobody")
    (entry, *_) = accounts.audit_log.entries(subject="user:alice")
    assert (entry.action, entry.detail) == ("user.groups", {"was": [], "is": ["lab", "night"]})
    for wrong in ("Lab", "@lab", "a b", ""):
        with pytest.raises(BadGroupName):
            accounts.users.change("alice", by="root-admin", groups=[wrong])
    assert accounts.users.get("alice").groups == ("lab", "night")


def test_the_name_of_a_deleted_user_is_given_again_only_on_purpose(accounts: Accounts) -> None:
    accounts.users.create("alice", Role.USER, by="test")
    accounts.users.delete("alice", by="test")
    with pytest.raises(NameWasUsed):
        accounts.users.create("alice", Role.USER, by="test")
    assert accounts.users.create("alice", Role.USER, by="test", is_reuse=True)[0].name == "alice"


def test_a_page_of_users_is_by_name_and_by_part_of_the_name(accounts: Accounts) -> None:
    for name in ("ann_a", "ann-b", "bob"):
        accounts.users.create(name, Role.USER, by="test")
    assert [user.name for user, _ in accounts.users.page(text="ann", limit=1)] == ["ann-b"]
    assert [user.name for user, _ in accounts.users.page(text="ann", after="ann-b")] == ["ann_a"]
    assert [user.name for user, _ in accounts.users.page(text="n_")] == ["ann_a"]


@pytest.mark.parametrize("take_away", ["disable", "demote", "delete"])
def test_the_last_administrator_stays(accounts: Accounts, take_away: str) -> None:
    with pytest.raises(LastAdmin):
        _taking_away(accounts, take_away, "root-admin")
    assert accounts.users.get("root-admin").role is Role.ADMIN and accounts.users.get("root-admin").is_enabled
    assert [entry.action for entry in accounts.audit_log.entries()] == ["user.created"]


def test_two_administrators_who_disable_each_other_at_once_leave_one(accounts: Accounts, url: str) -> None:
    accounts.users.create("other-admin", Role.ADMIN, by="test")
    names = ("root-admin", "other-admin")

    def disable(at: int) -> None:
        with own(url) as mine:
            mine.users.change(names[at], by="test", is_enabled=False)

    for _ in range(5):
        problems = together(disable, 2)
        assert [type(problem) for problem in problems] == [LastAdmin]
        for name in names:
            accounts.users.change(name, by="test", is_enabled=True)


def test_users_without_a_quota_are_locked_until_the_transaction_ends(accounts: Accounts, url: str) -> None:
    if accounts.database.is_sqlite:
        pytest.skip("SQLite has one writer anyway")
    with accounts.database.write() as conn, own(url) as other, other.database.write() as second:
        assert [user.name for user in store.lock_users_without_quota(conn)] == ["root-admin"]
        second.exec_driver_sql("SET LOCAL lock_timeout = 1")
        with pytest.raises(OperationalError, match="lock timeout"):
            store.lock_user(second, "root-admin")


def test_a_listener_that_fails_undoes_the_change(accounts: Accounts) -> None:
    def fails(conn: sa.Connection, event: str, user: User) -> None:
        raise RuntimeError(event)

    accounts = Accounts(accounts.database, SecretHasher("a key"), on_change=[fails])
    with pytest.raises(RuntimeError, match="created"):
        accounts.users.create("alice", Role.USER, by="test")
    assert [user.name for user, _ in accounts.users.page()] == ["root-admin"]


def test_a_user_whose_work_is_under_way_is_deleted_only_with_it(accounts: Accounts) -> None:
    running = {"alice": 3}
    work = ActiveWork("jobs", lambda name: running.get(name, 0), running.pop)
    accounts = Accounts(accounts.database, SecretHasher("a key"), works=[work])
    accounts.users.create("alice", Role.USER, by="test")
    with pytest.raises(UserIsBusy, match=r"jobs \(3\)"):
        accounts.users.delete("alice", by="test")
    assert accounts.users.get("alice").is_enabled
    accounts.users.delete("alice", by="test", is_cancelling=True)
    assert running == {}


def test_of_some_names_those_are_told_whose_users_are_there_and_enabled(accounts: Accounts) -> None:
    for name in ("alice", "bob"):
        accounts.users.create(name, Role.USER, by="test")
    accounts.users.change("bob", by="test", is_enabled=False)
    assert accounts.users.enabled_of(["alice", "bob", "nobody"]) == {"alice"}


# --- tokens and sessions ------------------------------------------------------------------------------
def test_a_token_says_whose_it_is_until_it_is_revoked(accounts: Accounts) -> None:
    token, text = accounts.tokens.issue("root-admin", by="test", label="x")
    user, record = accounts.tokens.check(text)
    assert (user.name, record.token_id, record.scopes) == ("root-admin", token.token_id, frozenset(Scope))
    accounts.tokens.revoke("root-admin", token.token_id, by="test")
    with pytest.raises(TokenRefused):
        accounts.tokens.check(text)
    with pytest.raises(TokenNotFound):
        accounts.tokens.revoke("root-admin", token.token_id, by="test")


def test_nothing_that_is_stored_is_enough_to_get_in(accounts: Accounts, database: Database) -> None:
    _, text = accounts.tokens.issue("root-admin", by="test")
    session = accounts.tokens.sign_in(text)
    with database.read() as conn:
        stored = "".join(str(conn.execute(sa.select(table)).all()) for table in metadata.tables.values())
    assert text[-43:] not in stored and session not in stored
    with pytest.raises(TokenRefused):  # and with another key the same rows are worth nothing
        Accounts(database, SecretHasher("another key")).tokens.check(text)


@pytest.mark.parametrize("ending", ["revoke", "disable", "delete", "sign out"])
def test_a_session_ends_with_what_it_stands_on(accounts: Accounts, ending: str) -> None:
    accounts.users.create("alice", Role.USER, by="test")
    token, text = accounts.tokens.issue("alice", by="test")
    session = accounts.tokens.sign_in(text)
    assert accounts.tokens.session(session)[0].name == "alice"
    if ending == "revoke":
        accounts.tokens.revoke("alice", token.token_id, by="test")
    elif ending == "sign out":
        accounts.tokens.sign_out(session)
    else:
        _taking_away(accounts, ending, "alice")
    with pytest.raises(TokenRefused):
        accounts.tokens.session(session)


def test_a_session_lives_no_longer_than_its_token(accounts: Accounts, database: Database) -> None:
    token, text = accounts.tokens.issue("root-admin", by="test", ttl_s=60)
    accounts.tokens.sign_in(text)
    with database.read() as conn:
        assert conn.execute(sa.select(sessions.c.expires_at)).scalar_one() == token.expires_at


def test_a_token_makes_none_that_may_do_more_or_lives_longer(accounts: Accounts) -> None:
    small, _ = accounts.tokens.issue("root-admin", by="test", scopes=[Scope.WRITE], ttl_s=60)
    assert small.scopes == {Scope.READ, Scope.WRITE}
    made, _ = accounts.tokens.issue("root-admin", by="test", within=small)
    assert (made.scopes, made.expires_at) == (small.scopes, small.expires_at)
    with pytest.raises(ModelmillError, match="may have these scopes: read write"):
        accounts.tokens.issue("root-admin", by="test", scopes=[Scope.ADMIN], within=small)


def test_the_last_use_is_noted_once_a_minute(accounts: Accounts, database: Database) -> None:
    token, text = accounts.tokens.issue("root-admin", by="test")
    accounts.tokens.check(text)
    [noted] = [known.last_used_at for known in accounts.tokens.of("root-admin")]
    accounts.tokens.check(text)
    assert [known.last_used_at for known in accounts.tokens.of("root-admin")] == [noted]
    with database.write() as conn:
        store.token_used(conn, token.token_id, "2020-01-01T00:00:00.000Z")
    accounts.tokens.check(text)
    assert (accounts.tokens.of("root-admin")[0].last_used_at or "") >= str(noted)


def test_an_expired_token_leaves_nobody_who_could_sign_in(accounts: Accounts, database: Database) -> None:
    assert not accounts.users.has_admin()
    accounts.tokens.issue("root-admin", by="test", ttl_s=3600)
    assert accounts.users.has_admin()
    with database.write() as conn:
        conn.execute(sa.update(api_tokens).values(expires_at=to_text(now())))
    assert not accounts.users.has_admin()


def _taking_away(accounts: Accounts, how: str, name: str) -> None:
    if how == "delete":
        accounts.users.delete(name, by="test")
    elif how == "disable":
        accounts.users.change(name, by="test", is_enabled=False)
    else:
        accounts.users.change(name, by="test", role=Role.USER)


# --- tokens made by tokens ----------------------------------------------------------------------------
def family(accounts: Accounts) -> tuple[Token, Token, Token]:
    """One that made one that made one."""
    first, _ = accounts.tokens.issue("root-admin", by="test")
    second, _ = accounts.tokens.issue("root-admin", by="test", within=first)
    third, _ = accounts.tokens.issue("root-admin", by="test", within=second)
    return first, second, third


def valid_of(accounts: Accounts, name: str) -> set[str]:
    return {token.token_id for token in accounts.tokens.of(name) if token.revoked_at is None}


def test_a_token_knows_which_made_it(accounts: Accounts) -> None:
    first, second, third = family(accounts)
    assert {token.token_id: token.made_by for token in accounts.tokens.of("root-admin")} == {
        first.token_id: None,
        second.token_id: first.token_id,
        third.token_id: second.token_id,
    }
    assert accounts.tokens.valid_made("root-admin") == {first.token_id: 2, second.token_id: 1}


def test_revoking_says_what_it_made_and_leaves_it(accounts: Accounts) -> None:
    first, second, third = family(accounts)
    revocation = accounts.tokens.revoke("root-admin", first.token_id, by="test")
    assert set(revocation.still_valid) == {second.token_id, third.token_id}
    assert revocation.also_revoked == ()
    assert valid_of(accounts, "root-admin") == {second.token_id, third.token_id}


def test_what_a_token_made_can_be_revoked_with_it_through_one_that_is_revoked_already(accounts: Accounts) -> None:
    first, second, third = family(accounts)
    session_text = accounts.tokens.issue("root-admin", by="test", within=second)[1]
    session = accounts.tokens.sign_in(session_text)
    accounts.tokens.revoke("root-admin", second.token_id, by="test")
    revocation = accounts.tokens.revoke("root-admin", first.token_id, by="test", with_made=True)
    assert set(revocation.also_revoked) == {third.token_id, session_text.split("_")[1]}
    assert revocation.still_valid == ()
    assert valid_of(accounts, "root-admin") == set()
    with pytest.raises(TokenRefused):
        accounts.tokens.session(session)
    noted = accounts.audit_log.entries(subject="user:root-admin", limit=4)
    assert [entry.action for entry in noted][:3] == ["token.revoked"] * 3
    assert {entry.detail.get("made_by") for entry in noted[:3]} == {None, second.token_id}


def test_an_administrators_token_knows_those_it_made_for_others(accounts: Accounts) -> None:
    """Who manages no users, or asks with a token that may not, hears of their own and revokes them alone."""
    accounts.users.create("alice", Role.USER, by="test")
    accounts.users.create("boss", Role.ADMIN, by="test")
    office, _ = accounts.tokens.issue("boss", by="test")
    handed, _ = accounts.tokens.issue("alice", by="boss", made_by=office.token_id)
    assert accounts.tokens.valid_made("boss") == {office.token_id: 1}
    assert accounts.tokens.valid_made("boss", only_own=True) == {}
    other, _ = accounts.tokens.issue("boss", by="test")
    kept, _ = accounts.tokens.issue("alice", by="boss", made_by=other.token_id)
    own, _ = accounts.tokens.issue("boss", by="test", within=other)
    revocation = accounts.tokens.revoke("boss", other.token_id, by="boss", with_made=True, only_own=True)
    assert (revocation.also_revoked, revocation.still_valid) == ((own.token_id,), ())
    revocation = accounts.tokens.revoke("boss", office.token_id, by="boss", with_made=True)
    assert revocation.also_revoked == (handed.token_id,)
    assert valid_of(accounts, "alice") == {kept.token_id}


def test_a_token_that_was_revoked_meanwhile_makes_none(accounts: Accounts) -> None:
    """Its request was let in just before."""
    first, _ = accounts.tokens.issue("root-admin", by="test")
    accounts.tokens.revoke("root-admin", first.token_id, by="test", with_made=True)
    with pytest.raises(TokenRefused):
        accounts.tokens.issue("root-admin", by="test", within=first)
