"""SFTP as a part of `modelmill up`: a server is there while it is used, and nobody who connects is kept out."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.homes.sftp.sockets import listen
from app.kit.cli.command import CannotStart
from tests.harness.ports import free_port
from tests.harness.processes import with_descendants
from tests.harness.reused_pid import sleeping_with_pid
from tests.harness.sftp import SftpServer, has_client
from tests.harness.until import PATIENCE_S, until

pytestmark = [pytest.mark.sftp, pytest.mark.skipif(not has_client(), reason="OpenSSH's client is not installed")]
IDLE_S, LONG_S = 2.0, 600.0


def program(port: int, idle_s: float = IDLE_S) -> tuple[str, ...]:
    return "-m", "tests.harness.sftp_on_demand", str(port), str(idle_s)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    deployment = SftpServer(tmp_path, program=program)
    yield deployment
    deployment.close()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[SftpServer]:
    """Whose server does not end while nobody is connected, on however busy a machine."""
    deployment = SftpServer(tmp_path, program=lambda port: program(port, LONG_S))
    yield deployment
    deployment.close()


def servers(server: SftpServer) -> set[int]:
    """Beside the process that listens."""
    return set(with_descendants([server.process.pid])) - {server.process.pid}


def test_the_server_is_there_while_it_is_used(server: SftpServer) -> None:
    server.user("alice")
    until(lambda: not servers(server), what="the first has published its port and ended")
    assert server.homes.sftp.facts("alice").endpoint.port == server.port

    for _ in range(2):
        assert "datasets" in server.batch("alice", "ls")
        until(lambda: not servers(server), what="nobody is connected any more")


def test_a_session_that_does_nothing_keeps_its_server(server: SftpServer) -> None:
    server.user("alice")
    until(lambda: not servers(server), what="the first has ended")
    client = server.terminal("alice", "-i", str(server.key))
    client.expect("sftp>")
    [one] = servers(server)
    with socket.create_connection(("127.0.0.1", server.port)) as other:
        other.recv(1)
    assert servers(server) == {one}
    client.sendline("ls")
    client.expect("datasets")
    client.close(force=True)
    until(lambda: not servers(server), what="it has ended with its session")


def test_what_is_known_of_failed_log_ins_does_not_end_with_its_server(server: SftpServer) -> None:
    """Who guesses could otherwise begin anew after each pause."""
    server.user("alice")
    until(lambda: not servers(server), what="the first has ended")
    assert server.with_password("alice", "guessed", "ls").returncode != 0
    [one] = servers(server)
    with pytest.raises(AssertionError):
        until(lambda: not servers(server), what="it ends", timeout_s=2 * IDLE_S)
    assert servers(server) == {one}


def test_the_end_of_the_one_that_listens_is_the_end_of_the_server(tmp_path: Path) -> None:
    deployment = SftpServer(tmp_path, program=lambda port: program(port, LONG_S))
    deployment.user("alice")
    until(lambda: not servers(deployment), what="the first has ended")
    deployment.batch("alice", "ls")
    [one] = servers(deployment)
    deployment.close()
    assert not Path(f"/proc/{one}").exists()


def test_the_end_of_the_one_that_listens_does_not_end_a_process_with_the_pid_of_its_last_server(tmp_path: Path) -> None:
    deployment = SftpServer(tmp_path, program=program)
    deployment.user("alice")
    until(lambda: not servers(deployment), what="the first has ended")
    client = deployment.terminal("alice", "-i", str(deployment.key))
    client.expect("sftp>")
    [one] = servers(deployment)
    client.close(force=True)
    until(lambda: not servers(deployment), what="nobody is connected any more")
    with sleeping_with_pid(one) as other:
        deployment.close()
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.1)


def test_a_server_that_cannot_start_ends_the_part(tmp_path: Path) -> None:
    """So that the supervisor starts it again, and what is wrong stands in its log."""
    deployment = SftpServer(tmp_path, program=program)
    until(lambda: not servers(deployment), what="the first has ended")
    (tmp_path / "data" / "sftp" / "host_key").chmod(0o644)
    with socket.create_connection(("127.0.0.1", deployment.port)):
        assert deployment.process.wait(PATIENCE_S) == 1
    assert "others can read the host key" in (tmp_path / "sftp.log").read_text()
    deployment.accounts.database.close()


def test_a_taken_port_is_said_so() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(CannotStart, match=f"cannot listen .* port {port}"):
        listen("127.0.0.1", port)


def test_every_address_of_this_machine_is_listened_on() -> None:
    sockets = listen("", free_port())
    assert {one.family for one in sockets} >= {socket.AF_INET}
    assert len({one.getsockname()[1] for one in sockets}) == 1
    for one in sockets:
        one.close()
