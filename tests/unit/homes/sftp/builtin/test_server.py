"""The process of the built-in SFTP server, piece by piece: its key, its port, nobody waits for another's disk."""

from __future__ import annotations

import asyncio
import socket
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.homes.files import HomeFiles
from app.homes.model import HomesOptions, Quota
from app.homes.quota import UsageTracker
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.builtin.connections import ConnectionRegistry, SftpConnection
from app.homes.sftp.builtin.home import SessionQuota, SftpHome
from app.homes.sftp.builtin.server import host_key
from app.homes.sftp.builtin.session import SftpSession
from app.homes.store import SftpAccount
from app.kit.cli.command import CannotStart
from app.kit.sql import Database
from app.standalone.ports import next_free_port
from tests.harness.until import PATIENCE_S


class Channel:
    """A client that is gone."""

    def exit(self, status: int) -> None:
        raise OSError(status, "the channel is closed")


def test_the_host_key_is_made_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sftp"
    fingerprint = host_key(folder).get_fingerprint()
    assert host_key(folder).get_fingerprint() == fingerprint
    assert fingerprint.startswith("SHA256:")
    assert stat.S_IMODE((folder / "host_key").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["host_key"]


def test_a_host_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    host_key(tmp_path)
    (tmp_path / "host_key").chmod(0o644)
    with pytest.raises(CannotStart, match="others can read"):
        host_key(tmp_path)


def test_several_that_make_the_key_at_once_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        made = [pool.submit(host_key, tmp_path).result().get_fingerprint(), host_key(tmp_path).get_fingerprint()]
    assert len(set(made)) == 1


def test_a_port_that_is_taken_gives_way_to_the_next() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert next_free_port("127.0.0.1", port) > port or port > 65000
        assert next_free_port("127.0.0.1", 0) not in (0, port)


def test_a_disk_that_hangs_for_one_session_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HomeFiles(HomesOptions(tmp_path)).create("alice")
    executor, gate, used = ThreadPoolExecutor(2), threading.Event(), []
    homes = [SftpHome(tmp_path, "users/alice", SessionQuota("alice", Quota(), UsageTracker(60))) for _ in range(2)]
    stuck, well = (SftpSession(Channel(), home, executor, lambda: used.append(1)) for home in homes)
    monkeypatch.setattr(homes[0], "lstat", lambda path: gate.wait(PATIENCE_S) and SftpHome.lstat(homes[0], path))

    async def both() -> None:
        waiting = asyncio.create_task(stuck.lstat(b"datasets"))
        await asyncio.sleep(0)
        attributes = await asyncio.wait_for(well.lstat(b"datasets"), PATIENCE_S)
        assert stat.S_ISDIR(attributes.permissions or 0)
        assert not waiting.done()
        gate.set()
        await waiting
        for session in (stuck, well):
            await session.exit()

    asyncio.run(both())
    executor.shutdown()
    assert len(used) == 2  # each request counts against idleness


def test_an_account_found_by_a_key_that_was_only_shown_counts_for_nobody_else() -> None:
    """Which key would do may be asked before a signature is made; another user then logs in on the same connection."""

    class Transport:
        is_aborted = False

        def get_extra_info(self, name: str) -> str:
            return {"username": "mallory"}[name]

        def abort(self) -> None:
            self.is_aborted = True

    registry = ConnectionRegistry(SftpAuthenticator(Database("sqlite:///nowhere")), HomesOptions(Path("nowhere")))
    connection, transport = SftpConnection(registry), Transport()
    connection._connection = transport  # type: ignore[assignment]
    connection.account = SftpAccount("alice", "users/alice", "", False, (), True, 0)
    connection.auth_completed()
    assert transport.is_aborted
    assert not connection.is_authenticated
