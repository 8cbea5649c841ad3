"""One suite over both SFTP backends: what each method does, and that it may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.bootstrap.accounts import MIGRATIONS
from app.homes.model import Quota
from app.homes.sftp.backend import SftpAccountMissing, SftpBackend, SftpUnavailable
from app.homes.sftp.builtin import BuiltinBackend
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.credentials import hash_password
from app.homes.sftp.sftpgo import SftpgoBackend, SftpgoOptions
from app.kit.sql import Database
from app.kit.sql.migrations import upgrade
from tests.harness.http_server import respond, served
from tests.standins.sftpgo import FINGERPRINT, SftpgoStandin

HOME = "users/alice"
HASH = hash_password("given for one time")
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJlYXV0aWZ1bCBwdWJsaWMga2V5IG9mIG91cnMhISE test"


@dataclass(frozen=True)
class Side:
    """A backend, and whether somebody can do anything with this password over SFTP."""

    backend: SftpBackend
    opens: Callable[[str, str], bool]


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Side]:
    database = Database(f"sqlite:///{tmp_path / 'db'}")
    upgrade(database, MIGRATIONS)
    Accounts(database, SecretHasher("k")).users.create("alice", Role.USER, by="test")
    authenticator = SftpAuthenticator(database)

    def opens(user: str, password: str) -> bool:
        account = authenticator.check(user, password).account
        return account is not None and not account.is_one_time

    yield Side(BuiltinBackend(database, host="door.example", port=2022), opens)
    database.close()


@pytest.fixture
def standin() -> Iterator[SftpgoStandin]:
    made = SftpgoStandin()
    yield made
    made.close()


def sftpgo_backend(standin: SftpgoStandin, *, password: str = "", api_key: str = "") -> SftpgoBackend:
    return SftpgoBackend(
        SftpgoOptions(
            standin.url, standin.admin, password or standin.password, "/private", "door.example", 2022, api_key
        )
    )


@pytest.fixture
def sftpgo(standin: SftpgoStandin) -> Iterator[Side]:
    backend = sftpgo_backend(standin)
    yield Side(backend, standin.logs_in)
    backend.close()


@pytest.fixture(params=["embedded", "sftpgo"])
def side(request: pytest.FixtureRequest) -> Side:
    backend: Side = request.getfixturevalue(request.param)
    return backend


def test_a_new_account_has_a_one_time_password_that_opens_nothing_else(side: Side) -> None:
    password = "given for one time"
    side.backend.create("alice", HOME, hash_password(password))
    assert side.backend.needs_new_password("alice")
    assert not side.opens("alice", password)


def test_a_password_that_was_set_opens(side: Side) -> None:
    side.backend.create("alice", HOME, HASH)
    side.backend.set_password("alice", "my own password")
    assert side.opens("alice", "my own password")
    assert not side.opens("alice", "another password")
    assert not side.backend.needs_new_password("alice")
    side.backend.set_password("alice", "for one time", is_one_time=True)
    assert not side.opens("alice", "my own password")
    assert not side.opens("alice", "for one time")


def test_creating_again_keeps_the_keys_and_takes_the_new_password(side: Side) -> None:
    side.backend.create("alice", HOME, HASH)
    side.backend.set_keys("alice", [KEY])
    side.backend.set_password("alice", "my own password")
    side.backend.create("alice", HOME, HASH)
    assert side.backend.needs_new_password("alice")
    assert not side.opens("alice", "my own password")
    assert side.backend.keys("alice") == [KEY]


def test_no_change_undoes_another(side: Side) -> None:
    side.backend.create("alice", HOME, HASH, quota=Quota(5, 6))
    side.backend.set_password("alice", "my own password")
    side.backend.set_keys("alice", [KEY])
    side.backend.set_quota("alice", Quota(7))
    side.backend.disable("alice")
    side.backend.set_keys("alice", [KEY, KEY.replace("test", "other")])
    assert not side.opens("alice", "my own password")
    side.backend.enable("alice")
    assert side.opens("alice", "my own password")
    assert len(side.backend.keys("alice")) == 2


def test_disabling_deleting_and_enabling_may_be_repeated(side: Side) -> None:
    side.backend.create("alice", HOME, HASH)
    side.backend.set_password("alice", "my own password")
    for _ in range(2):
        side.backend.disable("alice")
    assert not side.opens("alice", "my own password")
    for _ in range(2):
        side.backend.enable("alice")
    assert side.opens("alice", "my own password")
    for _ in range(2):
        side.backend.delete("alice")
    assert not side.opens("alice", "my own password")


def test_without_an_account_every_change_says_so(side: Side) -> None:
    backend = side.backend
    for change in (
        lambda: backend.set_password("alice", "my own password"),
        lambda: backend.set_keys("alice", []),
        lambda: backend.set_quota("alice", Quota(1)),
        lambda: backend.disable("alice"),
        lambda: backend.enable("alice"),
        lambda: backend.keys("alice"),
        lambda: backend.needs_new_password("alice"),
    ):
        with pytest.raises(SftpAccountMissing):
            change()


def test_it_says_where_it_is(side: Side) -> None:
    info = side.backend.info("alice")
    assert (info.host, info.port, info.username) == ("door.example", 2022, "alice")


# --- SFTPGo alone -----------------------------------------------------------------------------------
def test_sftpgo_is_told_what_a_user_may(sftpgo: Side, standin: SftpgoStandin) -> None:
    sftpgo.backend.create("alice", HOME, HASH, quota=Quota(5, 6))
    user = standin.users["alice"]
    assert user["home_dir"] == "/private/users/alice"
    assert (user["quota_size"], user["quota_files"]) == (5, 6)
    rights = {folder: set(of) for folder, of in user["permissions"].items()}
    assert not {"*", "create_symlinks", "chmod", "chown"} & set().union(*rights.values())
    assert {"upload", "download", "rename", "create_dirs", "delete"} <= rights["/datasets"]
    for folder in ("/", "/jobs", "/trash", "/tmp"):
        assert not {"upload", "overwrite", "create_dirs", "rename", "copy"} & rights[folder]
    assert {"download", "delete"} <= rights["/jobs"]
    assert set(user["filters"]["denied_protocols"]) == {"FTP", "DAV"}


@pytest.mark.parametrize("folder", ["/jobs", "/jobs/one", "/trash", "/trash/files", "/tmp", "/"])
def test_nothing_comes_into_what_the_service_clears(sftpgo: Side, standin: SftpgoStandin, folder: str) -> None:
    """SFTPGo has one right for both ends of a move: what it must not let in it cannot let out."""
    sftpgo.backend.create("alice", HOME, HASH)
    target = f"{folder.rstrip('/')}/mine"
    for replace in (False, True):
        assert not standin.renames("alice", "/datasets/mine", target, replace=replace)
        assert not standin.uploads("alice", target, replace=replace)
        assert standin.renames("alice", "/datasets/mine", "/models/below/mine", replace=replace)


def test_an_account_made_with_wider_rights_loses_them_at_its_next_change(sftpgo: Side, standin: SftpgoStandin) -> None:
    sftpgo.backend.create("alice", HOME, HASH)
    rights = standin.users["alice"]["permissions"]
    wider = {name: [*some, "rename"] if name in ("/jobs", "/trash", "/tmp") else some for name, some in rights.items()}
    standin.users["alice"]["permissions"] = wider
    sftpgo.backend.set_quota("alice", Quota(1))
    assert not standin.renames("alice", "/datasets/mine", "/jobs/mine")
    own = {"/": ["*"]}  # an operator's
    standin.users["alice"]["permissions"] = own
    sftpgo.backend.set_quota("alice", Quota(2))
    assert standin.users["alice"]["permissions"] == own


def test_what_an_operator_set_in_sftpgo_stays(sftpgo: Side, standin: SftpgoStandin) -> None:
    sftpgo.backend.create("alice", HOME, HASH)
    standin.users["alice"]["upload_bandwidth"] = 1024
    standin.users["alice"]["filters"]["allowed_ip"] = ["10.0.0.0/8"]
    sftpgo.backend.set_password("alice", "my own password")
    sftpgo.backend.set_keys("alice", [KEY])
    assert standin.users["alice"]["upload_bandwidth"] == 1024
    assert standin.users["alice"]["filters"]["allowed_ip"] == ["10.0.0.0/8"]
    assert standin.users["alice"]["permissions"]["/"]


def test_what_lets_somebody_in_no_more_ends_open_sessions_in_sftpgo(sftpgo: Side, standin: SftpgoStandin) -> None:
    backend = sftpgo.backend
    backend.create("alice", HOME, HASH)
    backend.set_keys("alice", [KEY])
    assert standin.disconnected == []
    backend.set_keys("alice", [])
    assert standin.disconnected == ["alice"]
    backend.set_password("alice", "my own password")
    assert standin.disconnected == ["alice"] * 2
    backend.disable("alice")
    assert standin.disconnected == ["alice"] * 3


def test_a_password_that_looks_like_a_hash_is_still_a_password(sftpgo: Side) -> None:
    """SFTPGo stores what looks like a hash as one."""
    sftpgo.backend.create("alice", HOME, HASH)
    sftpgo.backend.set_password("alice", "$2a$14$ajq8Q7fbtFRQvXpdCq7Jcuy")
    assert sftpgo.opens("alice", "$2a$14$ajq8Q7fbtFRQvXpdCq7Jcuy")


def test_a_token_is_used_until_it_ends_and_renewed_then(sftpgo: Side, standin: SftpgoStandin) -> None:
    sftpgo.backend.create("alice", HOME, HASH)
    sftpgo.backend.set_keys("alice", [])
    assert len(standin.tokens) == 1
    standin.tokens.clear()  # SFTPGo was restarted
    sftpgo.backend.set_keys("alice", [KEY])
    assert len(standin.tokens) == 1
    assert sftpgo.backend.keys("alice") == [KEY]


def test_a_token_about_to_end_is_renewed_before_it_is_used(sftpgo: Side, standin: SftpgoStandin) -> None:
    standin.token_s = 10
    sftpgo.backend.create("alice", HOME, HASH)
    sftpgo.backend.set_keys("alice", [])
    assert len(standin.tokens) == 3


def test_an_api_key_needs_no_token(standin: SftpgoStandin) -> None:
    backend = sftpgo_backend(standin, api_key=standin.api_key)
    backend.create("alice", HOME, HASH)
    assert "alice" in standin.users
    assert standin.tokens == {}
    backend.close()


@pytest.mark.parametrize("trouble", ["password", "key", "broken", "away"])
def test_an_sftpgo_that_cannot_be_used_is_said_to_be_so(standin: SftpgoStandin, trouble: str) -> None:
    credentials = {"password": {"password": "wrong"}, "key": {"api_key": "wrong"}}.get(trouble, {})
    backend = sftpgo_backend(standin, **credentials)
    standin.is_broken = trouble == "broken"
    if trouble == "away":
        standin.close()
    with pytest.raises(SftpUnavailable) as raised:
        backend.create("alice", HOME, HASH)
    assert ("MODELMILL_SFTPGO_PASSWORD" in raised.value.hint) == (trouble in ("password", "key"))
    assert backend.info("alice").fingerprint == ""
    backend.close()


TOKEN = b'{"access_token": "a", "expires_at": "2100-01-01T00:00:00Z"}'


@pytest.mark.parametrize("api_key", ["", "a key"])
@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff"])
def test_another_program_at_its_address_is_said_to_be_none(body: bytes, api_key: str) -> None:
    with served(lambda handler, _: respond(handler, body)) as url:
        backend = SftpgoBackend(SftpgoOptions(url, "admin", "password", "/private", "door.example", 2022, api_key))
        with pytest.raises(SftpUnavailable) as raised:
            backend.keys("alice")
        assert "MODELMILL_SFTPGO_URL" in raised.value.hint
        assert backend.info("alice").fingerprint == ""
        backend.close()


@pytest.mark.parametrize("body", [b"{}", TOKEN.replace(b"2100", b"soon")])
def test_a_token_that_is_none_is_said_to_be_so(body: bytes) -> None:
    with served(lambda handler, _: respond(handler, body)) as url:
        backend = SftpgoBackend(SftpgoOptions(url, "admin", "password", "/private", "door.example", 2022))
        with pytest.raises(SftpUnavailable, match="Something else"):
            backend.keys("alice")
        backend.close()


def test_the_fingerprint_is_what_sftpgo_says(sftpgo: Side) -> None:
    assert sftpgo.backend.info("alice").fingerprint == FINGERPRINT
