"""A password is changed for another one that may be used, or not at all."""

from __future__ import annotations

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.homes.sftp.builtin import BuiltinBackend
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.credentials import hash_password
from app.kit.sql import Database

OLD = "given for one time"


@pytest.fixture
def authenticator(database: Database) -> SftpAuthenticator:
    Accounts(database, SecretHasher("k")).users.create("alice", Role.USER, by="test")
    BuiltinBackend(database, host="door.example", port=2022).create("alice", "users/alice", hash_password(OLD))
    return SftpAuthenticator(database)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (OLD, OLD, "The new password must be another one."),
        (OLD, "short", "A password has 10 to 128 characters."),
        ("another one", "my own password", ""),
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    authenticator: SftpAuthenticator, old: str, new: str, problem: str
) -> None:
    verdict = authenticator.change("alice", old, new)
    assert (verdict.problem, verdict.account is None) == (problem, old != OLD)
    account = authenticator.check("alice", OLD).account
    assert account is not None and account.is_one_time


def test_after_a_change_the_new_password_alone_opens(authenticator: SftpAuthenticator) -> None:
    assert authenticator.change("alice", OLD, "my own password").problem == ""
    account = authenticator.check("alice", "my own password").account
    assert account is not None and not account.is_one_time
    assert authenticator.check("alice", OLD).account is None
