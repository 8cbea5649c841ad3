"""What a token set for SFTP ends with it, in either backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.homes.model import HomesOptions
from app.homes.service import Homes, listener
from app.homes.sftp.backend import SftpBackend, SftpUnavailable
from app.homes.sftp.builtin import BuiltinBackend
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.sftpgo import SftpgoBackend, SftpgoOptions
from app.kit.clock import now
from app.kit.sql import Database
from tests.standins.sftpgo import SftpgoStandin

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl planted"
OWN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBiIs8jmTwARmBROsy6V38v+eR38QyocjymCkUoT3JOF own"
PASSWORD = "chosen by a token"
LATER = timedelta(hours=2)


@dataclass(frozen=True)
class Env:
    """alice, with two tokens of hers."""

    accounts: Accounts
    homes: Homes
    tokens: tuple[str, str]

    def revoke(self, place: int) -> None:
        self.accounts.tokens.revoke("alice", self.tokens[place], by="alice")

    def keys(self) -> list[str]:
        """That the backend itself has."""
        sftp = self.homes.outbox.backend
        assert sftp is not None
        return sftp.keys("alice")


@pytest.fixture(params=["embedded", "sftpgo"])
def env(request: pytest.FixtureRequest, tmp_path: Path, database: Database) -> Iterator[Env]:
    sftp: SftpBackend = BuiltinBackend(database, host="h", port=1)
    if request.param == "sftpgo":
        standin: SftpgoStandin = request.getfixturevalue("standin")
        sftp = SftpgoBackend(SftpgoOptions(standin.url, standin.admin, standin.password, "/private", "h", 1))
    accounts = Accounts(database, SecretHasher("k"), on_change=[listener()])
    accounts.users.create("alice", Role.USER, by="admin")
    first, second = (accounts.tokens.issue("alice", by="alice", ttl_s=3600 * (2 * n + 1))[0] for n in range(2))
    yield Env(accounts, Homes(HomesOptions(tmp_path / "homes"), database, sftp), (first.token_id, second.token_id))
    if isinstance(sftp, SftpgoBackend):
        sftp.close()


def test_what_a_token_set_goes_with_it_and_nothing_else(env: Env) -> None:
    sftp, (leaked, good) = env.homes.sftp, env.tokens
    sftp.add_keys("alice", [OWN], by="alice", token_id=good)
    sftp.add_keys("alice", [KEY], by="alice", token_id=leaked)
    assert sftp.facts("alice").key_tokens == {OWN: good, KEY: leaked}
    env.revoke(0)
    assert sftp.facts("alice").keys == [OWN]
    sftp.end_bound(now())
    assert env.keys() == [OWN]
    entry = env.accounts.audit_log.entries(limit=1)[0]
    assert (entry.action, entry.detail) == ("door.credentials_ended", {"count": 1})
    sftp.end_bound(now())
    assert env.accounts.audit_log.entries(limit=1)[0] == entry  # once


def test_it_goes_when_the_token_expires(env: Env) -> None:
    sftp = env.homes.sftp
    sftp.set_keys("alice", [KEY], by="alice", token_id=env.tokens[0])
    sftp.end_bound(now())
    assert env.keys() == [KEY]
    sftp.end_bound(now() + LATER)
    assert env.keys() == []


def test_what_is_set_again_goes_with_who_set_it_last(env: Env) -> None:
    sftp, (leaked, good) = env.homes.sftp, env.tokens
    sftp.set_keys("alice", [KEY], by="alice", token_id=leaked)
    sftp.set_password("alice", PASSWORD, by="alice", token_id=leaked)
    sftp.add_keys("alice", [KEY.replace("planted", "kept")], by="alice", token_id=good)
    sftp.set_password("alice", PASSWORD, by="alice", token_id=good)
    env.revoke(0)
    sftp.end_bound(now())
    assert env.keys() == [KEY.replace("planted", "kept")]
    assert sftp.facts("alice").password_token == good
    assert not sftp.facts("alice").needs_new_password


def test_a_password_goes_with_its_token(env: Env) -> None:
    sftp = env.homes.sftp
    sftp.set_password("alice", PASSWORD, by="alice", token_id=env.tokens[0])
    env.revoke(0)
    facts = sftp.facts("alice")
    assert facts.needs_new_password and facts.password_token is None
    sftp.end_bound(now())
    assert sftp.facts("alice") == facts  # one that nobody knows


def test_what_nobodys_token_set_stays(env: Env) -> None:
    """Of an administrator for somebody else, and of this machine's own user."""
    sftp = env.homes.sftp
    sftp.reset_password("alice", by="admin", token_id="an administrator's")
    sftp.set_keys("alice", [KEY], by="alice")
    sftp.end_bound(now() + LATER)
    assert (sftp.facts("alice").password_token, sftp.facts("alice").key_tokens) == (None, {})
    assert env.keys() == [KEY]


def test_a_name_that_is_used_again_has_nothing_of_the_one_before(env: Env) -> None:
    env.homes.sftp.set_password("alice", PASSWORD, by="alice", token_id=env.tokens[0])
    env.accounts.users.delete("alice", by="admin")
    env.accounts.users.create("alice", Role.USER, by="admin", is_reuse=True)
    env.homes.sftp.set_password("alice", PASSWORD, by="admin")
    env.homes.sftp.end_bound(now())
    assert not env.homes.sftp.facts("alice").needs_new_password


@pytest.mark.parametrize("env", ["sftpgo"], indirect=True)
def test_what_could_not_be_set_moves_nothing(env: Env, standin: SftpgoStandin) -> None:
    sftp, (leaked, good) = env.homes.sftp, env.tokens
    sftp.set_password("alice", PASSWORD, by="alice", token_id=leaked)
    standin.is_broken = True
    with pytest.raises(SftpUnavailable):
        sftp.set_password("alice", PASSWORD, by="alice", token_id=good)
    env.revoke(0)
    sftp.end_bound(now())  # SFTPGo is away: tried again later
    standin.is_broken = False
    sftp.end_bound(now())
    assert sftp.facts("alice").needs_new_password


@pytest.mark.parametrize("env", ["embedded"], indirect=True)
def test_the_built_in_server_is_shut_at_once(env: Env, database: Database) -> None:
    sftp, authenticator = env.homes.sftp, SftpAuthenticator(database)
    sftp.set_keys("alice", [KEY, OWN], by="alice", token_id=env.tokens[0])
    sftp.add_keys("alice", [OWN], by="alice", token_id=env.tokens[1])
    sftp.set_password("alice", PASSWORD, by="alice", token_id=env.tokens[0])
    assert authenticator.check("alice", PASSWORD).account
    env.revoke(0)
    assert authenticator.check("alice", PASSWORD).account is None
    account = authenticator.find("alice")
    assert account is not None and account.keys == (OWN,)


@pytest.mark.parametrize("env", ["embedded"], indirect=True)
def test_a_password_changed_over_sftp_still_goes_with_the_token_that_planted_it(env: Env, database: Database) -> None:
    authenticator = SftpAuthenticator(database)
    planted = env.homes.sftp.reset_password("alice", by="alice", token_id=env.tokens[0])
    assert authenticator.change("alice", planted, PASSWORD).account
    env.revoke(0)
    assert authenticator.check("alice", PASSWORD).account is None
