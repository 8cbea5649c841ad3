"""Slows down guessing of passwords over SFTP: by address and by user, with a growing delay.

The delay precedes the password check, so disconnecting early gains nothing. An address far above its share is refused
without a check. For a user name the delay stays short, and is skipped at addresses from which the user has logged in
before: nobody can lock another user out. Keys are never slowed down.

It deliberately differs from app.accounts.login_throttle, which refuses after a number of failures in a minute, and
counts in Redis for all web processes. Here a growing delay comes first (SSH has no Retry-After), known addresses of a
user are exempt, and the counts are in this one process, which reaches the homes and the database but no Redis. Windows
of the library `limits` can express neither the delay nor the exempt addresses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.kit.backoff import GrowingPause

FREE_TRIES = 3
FIRST_DELAY_S = 0.5
ADDRESS_DELAY_S, USER_DELAY_S = 30.0, 5.0
REFUSED_FROM = 12
"""Failures of an address from which on it waits instead of being checked."""
FORGET_S = 600.0
"""Without a failure for this long, all is forgotten."""
MAX_COUNTS = 10_000


@dataclass
class _Count:
    failures: int = 0
    last_at: float = 0.0


class LoginThrottle:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: dict[str, _Count] = {}
        self._users: dict[str, _Count] = {}
        self._familiar: dict[tuple[str, str], float] = {}

    def delay_s(self, address: str, user: str) -> float | None:
        """How long the attempt must wait before it is checked; None: it is not checked."""
        by_address = self._count_failures(self._addresses, address)
        if by_address >= REFUSED_FROM and self._clock() - self._addresses[address].last_at < ADDRESS_DELAY_S:
            return None
        delay_s = _compute_pause(by_address, ADDRESS_DELAY_S)
        if (address, user) not in self._familiar:
            delay_s = max(delay_s, _compute_pause(self._count_failures(self._users, user), USER_DELAY_S))
        return delay_s

    def failed(self, address: str, user: str) -> None:
        for counts, name in ((self._addresses, address), (self._users, user)):
            if len(counts) >= MAX_COUNTS and name not in counts:
                self._forget(counts)
            count = counts.setdefault(name, _Count())
            count.failures = self._count_failures(counts, name) + 1
            count.last_at = self._clock()

    def succeeded(self, address: str, user: str) -> None:
        """The address keeps its failures: otherwise the owner of one account could guess at another."""
        self._users.pop(user, None)
        if len(self._familiar) >= MAX_COUNTS:
            self._familiar.clear()
        self._familiar[address, user] = self._clock()

    @property
    def remembers_failures(self) -> bool:
        return any(self._count_failures(self._addresses, address) for address in self._addresses)

    def _count_failures(self, counts: dict[str, _Count], name: str) -> int:
        count = counts.get(name)
        if count is None or self._clock() - count.last_at > FORGET_S:
            return 0
        return count.failures

    def _forget(self, counts: dict[str, _Count]) -> None:
        """Removes old ones; and if all are new, all: a flood of invented names must not grow forever."""
        old = [name for name in counts if not self._count_failures(counts, name)]
        for name in old or list(counts):
            del counts[name]


def _compute_pause(failures: int, longest_s: float) -> float:
    if failures < FREE_TRIES:
        return 0.0
    return GrowingPause(FIRST_DELAY_S, longest_s).of_try(failures - FREE_TRIES)
