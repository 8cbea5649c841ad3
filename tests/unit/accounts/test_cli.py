"""`modelmill users` on a database that a web already works with."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.accounts.cli import commands
from app.accounts.credentials import SecretHasher
from app.accounts.errors import WrongSecretKey
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.kit.errors import BadInput
from app.kit.sql import Database


def never(_: Path | None, name: str) -> str:
    raise AssertionError(name)


def test_a_token_that_the_web_would_never_accept_is_not_made(database: Database) -> None:
    web = Accounts(database, SecretHasher("the web's"))
    with web.database.write() as conn:
        web.key.remember(conn)
    web.users.create("boss", Role.ADMIN, by="test")

    def open_with(key: str) -> Accounts:
        return Accounts(database, SecretHasher(key))

    def without_the_key(_: Path | None) -> Accounts:
        return open_with("another")

    refused = CliRunner().invoke(commands(without_the_key, never), ["token", "boss"])
    assert isinstance(refused.exception, WrongSecretKey)
    assert web.tokens.of("boss") == []
    made = CliRunner().invoke(commands(lambda _: open_with("the web's"), never), ["token", "boss"])
    assert made.exit_code == 0 and len(web.tokens.of("boss")) == 1


def test_where_there_is_no_sftp_a_new_user_is_shown_no_password(database: Database) -> None:
    made = CliRunner().invoke(commands(lambda _: Accounts(database, SecretHasher("k")), never), ["create", "alice"])
    assert (made.exit_code, made.stdout) == (0, "")
    assert "Created the user alice." in made.stderr and "SFTP" not in made.stderr


def test_a_user_is_put_into_groups_and_leaves_them(database: Database) -> None:
    accounts = Accounts(database, SecretHasher("k"))
    accounts.users.create("alice", Role.USER, by="test")
    for groups in (["lab", "night"], []):
        ran = CliRunner().invoke(commands(lambda _: accounts, never), ["groups", "alice", *groups])
        assert ran.exit_code == 0, ran.output
        assert accounts.users.get("alice").groups == tuple(groups)


def test_revoking_says_what_the_token_made_and_takes_it_along_when_told_to(database: Database) -> None:
    accounts = Accounts(database, SecretHasher("k"))
    accounts.users.create("alice", Role.USER, by="test")
    first, second = [accounts.tokens.issue("alice", by="test")[0] for _ in range(2)]
    for maker in (first, second):
        accounts.tokens.issue("alice", by="test", within=maker)
    users = commands(lambda _: accounts, never)
    told = CliRunner().invoke(users, ["revoke", "alice", first.token_id])
    assert told.exit_code == 0
    assert "1 token that it made is still valid" in told.stderr and "--with-made" in told.stderr
    told = CliRunner().invoke(users, ["revoke", "alice", second.token_id, "--with-made"])
    assert told.exit_code == 0
    assert "1 token that it made is revoked with it" in told.stderr
    [left] = [token for token in accounts.tokens.of("alice") if token.revoked_at is None]
    assert left.made_by == first.token_id


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "bob", "--quota", "much"), "'much' is no size"),
        (("create", "bob", "--quota", ""), "'' is no size"),
        (("create", "bob", "--quota", "1048577TiB"), "1048577TiB is too large"),
        (("create", "bob", "--quota", "9" * 400), "is too large"),
        (("token", "alice", "--ttl", "soon"), "'soon' is no time"),
        (("token", "alice", "--ttl", "90"), "'90' is no time"),
        (("token", "alice", "--ttl", ""), "'' is no time"),
        (("token", "alice", "--ttl", "0s"), "between a second and a century"),
        (("token", "alice", "--ttl", "101y"), "between a second and a century"),
        (("token", "alice", "--label", "x" * 101), "may have 100 characters"),
        (("token", "alice", "--scope", "all"), "no scope 'all'"),
        (("token", "alice", "--scope", ""), "no scope ''"),
    ],
)
def test_what_is_typed_wrongly_is_named_and_makes_nothing(
    database: Database, arguments: tuple[str, ...], words: str
) -> None:
    accounts = Accounts(database, SecretHasher("k"))
    accounts.users.create("alice", Role.USER, by="test")
    ran = CliRunner().invoke(commands(lambda _: accounts, never), arguments)
    assert isinstance(ran.exception, BadInput) and words in ran.exception.message
    assert [user.name for user, _ in accounts.users.page(limit=9)] == ["alice"]
    assert accounts.tokens.of("alice") == []


def test_a_number_of_files_that_no_quota_may_have_is_refused(database: Database) -> None:
    accounts = Accounts(database, SecretHasher("k"))
    ran = CliRunner().invoke(
        commands(lambda _: accounts, never), ["create", "bob", "--quota-files", str((1 << 60) + 1)]
    )
    assert ran.exit_code == 2 and "--quota-files" in ran.stderr
