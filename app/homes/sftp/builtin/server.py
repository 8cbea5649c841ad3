"""The process of the built-in SFTP server: listens, takes care of its host key, ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from app.homes import store
from app.homes.model import HomesOptions
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.builtin.backend import FINGERPRINT, PORT
from app.homes.sftp.builtin.connections import IDLE_S, ConnectionRegistry, SftpConnection
from app.homes.sftp.builtin.home import SessionQuota, SftpHome
from app.homes.sftp.builtin.session import SftpSession
from app.homes.sftp.sockets import cannot_listen
from app.kit.cli.command import CannotStart
from app.kit.files import make_private
from app.kit.sql import Database

UMASK = 0o027
ARRIVING_S = 0.1
"""By then a connection is known that was accepted before the server stopped listening."""
KEEPALIVE_S, KEEPALIVES = 30, 4
"""A client that disappeared is detected after two minutes."""
LOGIN_S = 60
WINDOW_BYTES = 8 << 20
SESSIONS = 10
"""Of one connection; a client needs one, and one more per parallel transfer."""
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes256-ctr",
)


@dataclass(frozen=True)
class ServerOptions:
    host: str
    port: int
    """0: any that is free."""
    key_folder: Path
    """Of this host, not shared."""
    idle_s: float = IDLE_S
    """A connection without a request for this long is ended."""
    sockets: tuple[socket.socket, ...] = ()
    """Listening sockets, instead of host and port."""
    unused_s: float | None = None
    """The server ends if nobody was connected for this long; None: it does not."""


class SftpServer:
    def __init__(self, database: Database, homes: HomesOptions, options: ServerOptions) -> None:
        self.database = database
        self.homes = homes
        self.options = options
        self.registry = ConnectionRegistry(SftpAuthenticator(database), homes, idle_s=options.idle_s)

    async def run(self) -> bool:
        """Serves until SIGTERM or SIGINT, or until nobody uses it: then True.

        Raises:
            CannotStart: The address is taken, or the keys cannot be read.
        """
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        watching = asyncio.create_task(self.registry.watch())
        waiting = asyncio.create_task(ended.wait())
        try:
            return await self._serve(host_key(self.options.key_folder), watching, waiting)
        finally:
            for task in (watching, waiting):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def _serve(self, key: asyncssh.SSHKey, *tasks: asyncio.Task[Any]) -> bool:
        """Until one of these tasks is done, or until nobody uses it: then True."""
        while True:
            listeners = await self._listen(key)
            self._publish(listeners[0].get_port(), key.get_fingerprint())
            unused = asyncio.create_task(self.registry.until_unused(self.options.unused_s))
            try:
                await asyncio.wait((*tasks, unused), return_when=asyncio.FIRST_COMPLETED)
            finally:
                unused.cancel()
                for listener in listeners:
                    listener.close()
            for task in tasks:
                if task.done():
                    task.result()
                    return False
            await asyncio.sleep(ARRIVING_S)
            if self.registry.is_unused:
                return True

    def _publish(self, port: int, fingerprint: str) -> None:
        with self.database.write() as conn:
            store.put_fact(conn, PORT, str(port))
            store.put_fact(conn, FINGERPRINT, fingerprint)
        print(f"SFTP on {self.options.host} port {port}, {fingerprint}", flush=True)

    async def _listen(self, key: asyncssh.SSHKey) -> list[asyncssh.SSHAcceptor]:
        if self.options.sockets:
            return [await self._accept(key, sock=listening.dup()) for listening in self.options.sockets]
        try:
            return [await self._accept(key, host=self.options.host, port=self.options.port)]
        except OSError as error:
            raise cannot_listen(self.options.host, self.options.port, error) from error

    async def _accept(self, key: asyncssh.SSHKey, **where: Any) -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(
            lambda: SftpConnection(self.registry),
            **where,
            server_host_keys=[key],
            sftp_factory=self._make_session,
            allow_scp=False,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=KEEPALIVES,
            login_timeout=LOGIN_S,
            window=WINDOW_BYTES,
            encryption_algs=CIPHERS,
            compression_algs=["none"],
            agent_forwarding=False,
            x11_forwarding=False,
            gss_host=None,
            server_version="Modelmill",
            line_editor=False,
        )

    async def _make_session(self, chan: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        connection = chan.get_connection().get_owner()
        assert isinstance(connection, SftpConnection)
        assert connection.account is not None
        connection.sessions += 1
        if connection.sessions > SESSIONS:
            connection.end("Too many sessions in one connection.")
            raise asyncssh.SFTPNoConnection("too many sessions")
        account = connection.account
        limit = self.homes.quota(account.quota_bytes, account.quota_files)
        quota = SessionQuota(account.user, limit, self.registry.usage)
        loop = asyncio.get_running_loop()
        home = await loop.run_in_executor(self.registry.file_threads, SftpHome, self.homes.root, account.home, quota)
        return SftpSession(chan, home, self.registry.file_threads, connection.touch)


def host_key(folder: Path) -> asyncssh.SSHKey:
    """Created once, readable only by its owner: clients refuse a server whose key has changed."""
    path = make_private(folder) / "host_key"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(asyncssh.generate_private_key("ssh-ed25519", comment="modelmill").export_private_key())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    if path.stat().st_mode & 0o077:
        raise CannotStart(f"others can read the host key {path}", hint=f"Run `chmod 600 {path}`.")
    return asyncssh.read_private_key(path)


def serve(database: Database, homes: HomesOptions, options: ServerOptions) -> bool:
    """See `SftpServer.run`."""
    os.umask(UMASK)
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    return asyncio.run(SftpServer(database, homes, options).run())
