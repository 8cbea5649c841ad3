"""What the connections of the embedded door share: who is in, how many may be, and when they must go."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from app.homes.model import HomesOptions
from app.homes.quota import UsageTracker
from app.homes.sftp.builtin.authenticator import SftpAuthenticator
from app.homes.sftp.builtin.login_throttle import LoginThrottle
from app.kit.errors import ModelmillError

if TYPE_CHECKING:
    from app.homes.sftp.builtin.connection import SftpConnection

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
