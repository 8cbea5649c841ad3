"""The connections of the built-in SFTP server: who each of them is, by password or key, how many may be open, and when
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
LOOK_S = 0.5
"""How often it is asked whether those who are in may stay; twice that at most until a disabled user is out."""
IDLE_S = 1800.0
CONNECTIONS = 500
STRANGERS = 10
"""Connections of one address that have not logged in."""
PER_USER = 16
FILE_THREADS, DESK_THREADS = 16, 2
"""Password hashes take 19 MiB and a core each: a flood of log-ins must not take the machine."""
logger = logging.getLogger(__name__)


class SftpConnection(asyncssh.SSHServer):
    def __init__(self, hall: ConnectionRegistry) -> None:
        self.hall = hall
        self.account: SftpAccount | None = None
        self._key: bytes | None = None
        """With which it logged in; None: with the account's password."""
        self.is_in = False
        self.used_at = time.monotonic()
        self.sessions = 0
        self._tries = 0
        self.address = ""
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self.address = network(conn.get_extra_info("peername")[0])
        if not self.hall.arrive(self):
            conn.disconnect(asyncssh.DISC_TOO_MANY_CONNECTIONS, "Too many connections; try again later.")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.hall.leave(self)

    def touched(self) -> None:
        self.used_at = time.monotonic()

    def show_out(self, reason: str) -> None:
        """End the connection, politely and then at once."""
        if self._connection is not None:
            self._connection.disconnect(asyncssh.DISC_BY_APPLICATION, reason)
            asyncio.get_running_loop().call_later(0.5, self._connection.abort)

    def why_out(self, account: SftpAccount | None) -> str:
        """Why this connection may not go on, with the account as it is now (None: disabled); empty when it may.

        Whoever came in with a password that was reset, or a key that was removed, goes: it may have been stolen. So
        does whoever came in by what was set with a token that has ended.
        """
        if account is None:
            return "This account was disabled."
        if self._key is not None:
            if any(_public_data(text) == self._key for text in account.keys):
                return ""
            return "This key was removed, or the token that set it has ended."
        assert self.account is not None
        if account.password_hash is None:
            return "The password is to be changed: the token that set it has ended."
        return "" if account.password_hash == self.account.password_hash else "The password was changed."

    # --- log-in -------------------------------------------------------------------------------------
    def begin_auth(self, username: str) -> bool:  # noqa: ARG002
        return True

    def password_auth_supported(self) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        """OpenSSH would prefer it to passwords, and a one-time password could not be changed in it."""
        return False

    async def validate_password(self, username: str, password: str) -> bool:
        verdict = await self._attempt(username, lambda: self.hall.book.check(username, password))
        if verdict.account is not None and verdict.account.is_one_time:
            raise asyncssh.PasswordChangeRequired(CHANGE_PROMPT)
        return self._admit(verdict.account)

    async def change_password(self, username: str, old_password: str, new_password: str) -> bool:
        verdict = await self._attempt(username, lambda: self.hall.book.change(username, old_password, new_password))
        if verdict.why:
            raise asyncssh.PasswordChangeRequired(verdict.why)
        return self._admit(verdict.account)

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        account = await self._ask(lambda: self.hall.book.find(username), None)
        if account is None or not any(_public_data(text) == key.public_data for text in account.keys):
            return False
        return self._admit(account, key.public_data)

    def auth_completed(self) -> None:
        """account is set before a key's signature is looked at: it counts only for the name that has logged in."""
        assert self._connection is not None
        if self.account is None or self.account.user != self._connection.get_extra_info("username"):
            self._connection.abort()
            return
        self.is_in = True
        self.touched()
        if not self.hall.has_room(self.account.user):
            self.show_out("You have too many sessions open; close one of them.")

    async def _attempt(self, user: str, work: Callable[[], Verdict]) -> Verdict:
        """One try with a password, slowed down as it deserves."""
        self._tries += 1
        delay_s = self.hall.throttle.delay_s(self.address, user)
        if delay_s is None or self._tries > TRIES:
            self.show_out("Too many attempts that failed; try again later.")
            return Verdict(None)
        await asyncio.sleep(delay_s)
        verdict = await self._ask(work, Verdict(None))
        if verdict.account is None:
            logger.warning("A log-in over SFTP as %.32r from %s failed.", user, self.address)
            self.hall.throttle.failed(self.address, user)
        else:
            self.hall.throttle.succeeded(self.address, user)
        return verdict

    async def _ask(self, work: Callable[[], T], otherwise: T) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.hall.desk, work)
        except ModelmillError as error:
            logger.warning("Nobody can log in over SFTP: %s", error.message)
            return otherwise

    def _admit(self, account: SftpAccount | None, key: bytes | None = None) -> bool:
        self.account, self._key = account, key
        return account is not None


class ConnectionRegistry:
    def __init__(self, book: SftpAuthenticator, options: HomesOptions, *, idle_s: float = IDLE_S) -> None:
        self.book = book
        self.options = options
        self.throttle = LoginThrottle()
        self.ledger = UsageTracker(options.usage_ttl_s)
        self.files = ThreadPoolExecutor(FILE_THREADS, "files")
        self.desk = ThreadPoolExecutor(DESK_THREADS, "desk")
        self._idle_s = idle_s
        self._guards: set[SftpConnection] = set()

    def arrive(self, guard: SftpConnection) -> bool:
        """False when there is no room."""
        self._guards.add(guard)
        strangers = sum(1 for g in self._guards if not g.is_in and g.address == guard.address)
        return len(self._guards) <= CONNECTIONS and strangers <= STRANGERS

    def leave(self, guard: SftpConnection) -> None:
        self._guards.discard(guard)

    def has_room(self, user: str) -> bool:
        return len(self._of(user)) <= PER_USER

    async def watch(self) -> None:
        """For ever: show out who may no longer be in, and who does nothing."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._end_idle(time.monotonic())
            await self._end_unwanted()

    def _of(self, user: str) -> list[SftpConnection]:
        return [g for g in self._guards if g.is_in and g.account is not None and g.account.user == user]

    def _end_idle(self, now: float) -> None:
        for guard in list(self._guards):
            if guard.is_in and now - guard.used_at > self._idle_s:
                guard.show_out("Nothing was asked for too long.")

    async def _end_unwanted(self) -> None:
        users = {g.account.user for g in self._guards if g.is_in and g.account is not None}
        if not users:
            return
        try:
            accounts = await asyncio.get_running_loop().run_in_executor(self.files, self.book.accounts, users)
        except ModelmillError as error:
            logger.warning("It cannot be asked who may stay: %s", error.message)
            return
        for user in users:
            for guard in self._of(user):
                reason = guard.why_out(accounts.get(user))
                if reason:
                    guard.show_out(reason)


def _public_data(text: str) -> bytes | None:
    """Of a key as OpenSSH writes it; None for what is none."""
    try:
        data: bytes = asyncssh.import_public_key(" ".join(text.split()[:2])).public_data
    except asyncssh.KeyImportError:
        return None
    return data
