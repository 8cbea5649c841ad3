"""Tokens are made with the key that the web checks them with, or not at all."""

from __future__ import annotations

import logging

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.errors import WrongSecretKey
from app.accounts.model import Role
from app.accounts.service import Accounts
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
