"""The connections of the built-in SFTP server: their users, authenticated by password or key, their number, and when
they must end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import asyncssh

from app.accounts.login_throttle import network
from app.homes.model import HomesOptions
from app.homes.quota import UsageTracker
from app.homes.sftp.builtin.authenticator import SftpAuthenticator, Verdict
from app.homes.sftp.builtin.login_throttle import LoginThrottle
from app.homes.store import SftpAccount
from app.kit.errors import ModelmillError

T = TypeVar("T")
TRIES = 6
"""Passwords per connection, as OpenSSH's server has it."""
CHANGE_PROMPT = "This password was for one time. Choose your own."
WATCH_EVERY_S = 0.5
"""How often it is checked whether logged-in users are still allowed: a disabled one is disconnected within twice
that."""
UNUSED_EVERY_S = 1.0
IDLE_S = 1800.0
MAX_CONNECTIONS = 500
MAX_UNAUTHENTICATED = 10
"""Connections of one address that have not logged in yet."""
MAX_PER_USER = 16
FILE_THREADS, LOGIN_THREADS = 16, 2
"""Password hashes take 19 MiB and a core each: a flood of log-ins must not take the machine."""
logger = logging.getLogger(__name__)


class SftpConnection(asyncssh.SSHServer):
    def __init__(self, registry: ConnectionRegistry) -> None:
        self.registry = registry
        self.account: SftpAccount | None = None
        self._key: bytes | None = None
        """The key of the log-in; None: the account's password."""
        self.is_authenticated = False
        self.used_at = time.monotonic()
        self.sessions = 0
        self._tries = 0
        self.address = ""
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self.address = network(conn.get_extra_info("peername")[0])
        if not self.registry.register(self):
            conn.disconnect(asyncssh.DISC_TOO_MANY_CONNECTIONS, "Too many connections; try again later.")

    def connection_lost(self, exc: Exception | None) -> None:
        self.registry.unregister(self)

    def touch(self) -> None:
        self.used_at = time.monotonic()

    def end(self, reason: str) -> None:
        """Disconnect with a reason, and cut the connection half a second later."""
        if self._connection is not None:
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, reason)
            asyncio.get_running_loop().call_later(0.5, self._connection.abort)

    def reason_to_end(self, account: SftpAccount | None) -> str:
        """Why this connection must end, given the current account (None: disabled); empty if it may stay.

        One that was authenticated by a password that was reset or a key that was removed ends, as that may have been
        stolen. So does one whose credential was set with a token that has ended, and one whose files were opened under
        another quota.
        """
        if account is None:
            return "This account was disabled."
        assert self.account is not None
        if (account.quota_bytes, account.quota_files) != (self.account.quota_bytes, self.account.quota_files):
            return "The quota was changed: log in again."
        if self._key is not None:
            if any(_decode_public_key(text) == self._key for text in account.keys):
                return ""
            return "This key was removed, or the token that set it has ended."
        if account.password_hash is None:
            return "The password is to be changed: the token that set it has ended."
        return "" if account.password_hash == self.account.password_hash else "The password was changed."

    # --- log-in -------------------------------------------------------------------------------------
    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        """No: OpenSSH would prefer it to passwords, and a one-time password could not be changed in it."""
        return False

    async def validate_password(self, username: str, password: str) -> bool:
        verdict = await self._attempt(username, lambda: self.registry.authenticator.check(username, password))
        if verdict.account is not None and verdict.account.is_one_time:
            raise asyncssh.PasswordChangeRequired(CHANGE_PROMPT)
        return self._admit(verdict.account)

    async def change_password(self, username: str, old_password: str, new_password: str) -> bool:
        verdict = await self._attempt(
            username, lambda: self.registry.authenticator.change(username, old_password, new_password)
        )
        if verdict.problem:
            raise asyncssh.PasswordChangeRequired(verdict.problem)
        return self._admit(verdict.account)

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        account = await self._ask(lambda: self.registry.authenticator.find(username), None)
        if account is None or not any(_decode_public_key(text) == key.public_data for text in account.keys):
            return False
        return self._admit(account, key.public_data)

    def auth_completed(self) -> None:
        """account is set before a key's signature is checked: it counts only for the name that has logged in."""
        assert self._connection is not None
        if self.account is None or self.account.user != self._connection.get_extra_info("username"):
            self._connection.abort()
            return
        self.is_authenticated = True
        self.touch()
        if not self.registry.has_room(self.account.user):
            self.end("You have too many sessions open; close one of them.")

    async def _attempt(self, user: str, work: Callable[[], Verdict]) -> Verdict:
        """One try with a password, slowed down after failures."""
        self._tries += 1
        delay_s = self.registry.throttle.delay_s(self.address, user)
        if delay_s is None or self._tries > TRIES:
            self.end("Too many attempts that failed; try again later.")
            return Verdict(None)
        await asyncio.sleep(delay_s)
        verdict = await self._ask(work, Verdict(None))
        if verdict.account is None:
            logger.warning("A log-in over SFTP as %.32r from %s failed.", user, self.address)
            self.registry.throttle.failed(self.address, user)
        else:
            self.registry.throttle.succeeded(self.address, user)
        return verdict

    async def _ask(self, work: Callable[[], T], fallback: T) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.registry.login_threads, work)
        except ModelmillError as error:
            logger.warning("Nobody can log in over SFTP: %s", error.message)
            return fallback

    def _admit(self, account: SftpAccount | None, key: bytes | None = None) -> bool:
        self.account, self._key = account, key
        return account is not None


class ConnectionRegistry:
    def __init__(self, authenticator: SftpAuthenticator, options: HomesOptions, *, idle_s: float = IDLE_S) -> None:
        self.authenticator = authenticator
        self.options = options
        self.throttle = LoginThrottle()
        self.usage = UsageTracker(options.usage_ttl_s)
        self.file_threads = ThreadPoolExecutor(FILE_THREADS, "files")
        self.login_threads = ThreadPoolExecutor(LOGIN_THREADS, "log-in")
        self._idle_s = idle_s
        self._connections: set[SftpConnection] = set()
        self._arrival = asyncio.Event()
        self._left_at = time.monotonic()

    def register(self, connection: SftpConnection) -> bool:
        """False when there are too many."""
        self._connections.add(connection)
        self._arrival.set()
        unauthenticated = sum(
            1 for other in self._connections if not other.is_authenticated and other.address == connection.address
        )
        return len(self._connections) <= MAX_CONNECTIONS and unauthenticated <= MAX_UNAUTHENTICATED

    def unregister(self, connection: SftpConnection) -> None:
        self._connections.discard(connection)
        self._left_at = time.monotonic()

    @property
    def is_unused(self) -> bool:
        """Whether nobody is connected, and no failed log-ins are known that would be lost with this process."""
        return not self._connections and not self.throttle.remembers_failures

    async def until_unused(self, for_s: float | None) -> None:
        """Waits until nobody was connected for this many seconds; None: forever."""
        while for_s is None or not self.is_unused or time.monotonic() - self._left_at < for_s:
            await asyncio.sleep(UNUSED_EVERY_S)

    def has_room(self, user: str) -> bool:
        return len(self._of(user)) <= MAX_PER_USER

    async def watch(self) -> None:
        """Runs until cancelled: ends connections that are no longer allowed, and idle ones."""
        while True:
            if not self._connections:
                self._arrival.clear()
                await self._arrival.wait()
            await asyncio.sleep(WATCH_EVERY_S)
            self._end_idle(time.monotonic())
            await self._end_refused()

    def _of(self, user: str) -> list[SftpConnection]:
        return [
            connection
            for connection in self._connections
            if connection.is_authenticated and connection.account is not None and connection.account.user == user
        ]

    def _end_idle(self, now: float) -> None:
        for connection in list(self._connections):
            if connection.is_authenticated and now - connection.used_at > self._idle_s:
                connection.end("Nothing was asked for too long.")

    async def _end_refused(self) -> None:
        users = {
            connection.account.user
            for connection in self._connections
            if connection.is_authenticated and connection.account is not None
        }
        if not users:
            return
        try:
            accounts = await asyncio.get_running_loop().run_in_executor(
                self.file_threads, self.authenticator.accounts, users
            )
        except ModelmillError as error:
            logger.warning("It cannot be asked who may stay: %s", error.message)
            return
        for user in users:
            for connection in self._of(user):
                reason = connection.reason_to_end(accounts.get(user))
                if reason:
                    connection.end(reason)


def _decode_public_key(text: str) -> bytes | None:
    """Of a key as OpenSSH writes it; None for any other text."""
    try:
        data: bytes = asyncssh.import_public_key(" ".join(text.split()[:2])).public_data
    except asyncssh.KeyImportError:
        return None
    return data
