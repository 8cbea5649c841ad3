"""One connection to the embedded door: who it is, by password or key, and whether they may come in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeVar

import asyncssh

from app.accounts.login_throttle import network
from app.homes.sftp.builtin.authenticator import Verdict
from app.homes.sftp.builtin.connection_registry import ConnectionRegistry
from app.homes.store import SftpAccount
from app.kit.errors import ModelmillError

T = TypeVar("T")
TRIES = 6
"""Passwords per connection, as OpenSSH's server has it."""
CHANGE_PROMPT = "This password was for one time. Choose your own."
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


def _public_data(text: str) -> bytes | None:
    """Of a key as OpenSSH writes it; None for what is none."""
    try:
        data: bytes = asyncssh.import_public_key(" ".join(text.split()[:2])).public_data
    except asyncssh.KeyImportError:
        return None
    return data
