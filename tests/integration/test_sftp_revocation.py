"""What lets somebody in over SFTP lets them stay: with the key or password goes the session."""

from __future__ import annotations

from collections.abc import Iterator

import pexpect
import pytest

from app.homes.sftp.builtin.connections import WATCH_EVERY_S
from tests.harness.sftp import SftpServer, has_client

pytestmark = [pytest.mark.sftp, pytest.mark.skipif(not has_client(), reason="OpenSSH's client is not installed")]
PROMPT = "sftp>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    server = SftpServer(tmp_path_factory.mktemp("sftp"))
    yield server
    server.close()


def by_password(server: SftpServer, name: str, password: str) -> pexpect.spawn:
    client = server.terminal(name, "-o", "PubkeyAuthentication=no")
    client.expect("(?i)password:")
    client.sendline(password)
    client.expect(PROMPT)
    return client


def by_key(server: SftpServer, name: str) -> pexpect.spawn:
    client = server.terminal(name, "-i", str(server.key))
    client.expect(PROMPT)
    return client


def is_out(client: pexpect.spawn) -> None:
    client.expect(["changed", "removed", "closed", "(?i)disconnect", pexpect.EOF])
    client.close(force=True)


def is_in(client: pexpect.spawn) -> None:
    client.sendline("ls")
    client.expect("datasets")
    client.expect(PROMPT)


def test_a_password_that_is_reset_ends_the_sessions_it_began_and_no_others(server: SftpServer) -> None:
    server.user("alice")
    server.homes.sftp.set_password("alice", "first password", by="alice")
    stolen, own = by_password(server, "alice", "first password"), by_key(server, "alice")
    server.homes.sftp.reset_password("alice", by="alice")
    is_out(stolen)
    is_in(own)
    own.close(force=True)


def test_a_key_that_is_removed_ends_the_sessions_it_began_and_no_others(server: SftpServer) -> None:
    server.user("bob")
    server.homes.sftp.set_password("bob", "first password", by="bob")
    stolen, own = by_key(server, "bob"), by_password(server, "bob", "first password")
    server.homes.sftp.set_keys("bob", [], by="bob")
    is_out(stolen)
    is_in(own)
    own.close(force=True)


def test_who_changes_a_one_time_password_stays_in(server: SftpServer) -> None:
    server.user("carol", has_key=False)
    one_time = server.homes.sftp.reset_password("carol", by="carol")
    client = server.terminal("carol", "-o", "PubkeyAuthentication=no")
    for answer in (one_time, one_time, "a password of mine", "a password of mine"):
        client.expect("(?i)password:")
        client.sendline(answer)
    client.expect(PROMPT)
    client.expect(pexpect.TIMEOUT, timeout=3 * WATCH_EVERY_S)
    is_in(client)
    client.close(force=True)


def test_what_a_token_planted_and_its_sessions_end_with_the_token(server: SftpServer) -> None:
    server.user("dora", has_key=False)
    token, _ = server.accounts.tokens.issue("dora", by="dora")
    planted = server.key.with_suffix(".pub").read_text()
    server.homes.sftp.set_password("dora", "of nobody's token", by="dora")
    server.homes.sftp.set_keys("dora", [planted], by="dora", token_id=token.token_id)
    stolen, own = by_key(server, "dora"), by_password(server, "dora", "of nobody's token")
    server.accounts.tokens.revoke("dora", token.token_id, by="dora")
    is_out(stolen)
    is_in(own)
    own.close(force=True)
    assert "denied" in server.batch("dora", "ls", fails=True).lower()
