"""Tokens are made with the key that the web checks them with, or not at all."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.errors import BadToken, UserNotFound, WrongSecretKey
from app.accounts.model import MAX_LABEL, Role
from app.accounts.service import Accounts
from app.accounts.service.tokens import MAX_TTL_S
from app.kit.sql import Database


def with_key(database: Database, key: str) -> Accounts:
    return Accounts(database, SecretHasher(key))


def remember(accounts: Accounts) -> None:
    with accounts.database.write() as conn:
        accounts.key.remember(conn)


def test_before_the_web_has_started_any_key_will_do(database: Database) -> None:
    with_key(database, "a").key.check()


def test_another_key_than_the_webs_is_refused(database: Database) -> None:
    remember(with_key(database, "the web's"))
    with_key(database, "the web's").key.check()
    with pytest.raises(WrongSecretKey, match="never accept"):
        with_key(database, "another").key.check()


def test_the_key_of_the_last_start_counts_and_a_change_that_ends_tokens_is_said(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    first, second = with_key(database, "first"), with_key(database, "second")
    remember(first)
    remember(second)
    assert not caplog.records, "there is no token yet"
    second.users.create("root-admin", Role.ADMIN, by="test")
    second.tokens.issue("root-admin", by="test")
    remember(second)
    assert not caplog.records, "the key is the same"
    remember(first)
    assert "no token or session made before is accepted" in caplog.text
    first.key.check()


def test_the_database_holds_a_fingerprint_and_not_the_key(database: Database) -> None:
    remember(with_key(database, "the web's"))
    with database.read() as connection:
        kept = connection.exec_driver_sql("SELECT value FROM installation").scalar()
    assert kept == SecretHasher("the web's").fingerprint != SecretHasher("another").fingerprint
    assert "the web's" not in str(kept)


@pytest.mark.parametrize(
    "wrong", [{"label": "x" * (MAX_LABEL + 1)}, {"ttl_s": 0}, {"ttl_s": -1}, {"ttl_s": MAX_TTL_S + 1}]
)
def test_a_token_with_a_label_too_long_or_no_life_is_not_made(database: Database, wrong: dict[str, Any]) -> None:
    accounts = with_key(database, "a")
    accounts.users.create("alice", Role.USER, by="test")
    with pytest.raises(BadToken, match="between a second and a century"):
        accounts.tokens.issue("alice", by="test", **wrong)
    assert accounts.tokens.of("alice") == []


def test_nobody_gets_no_token(database: Database) -> None:
    with pytest.raises(UserNotFound, match="There is no user alice"):
        with_key(database, "a").tokens.issue("alice", by="test")
