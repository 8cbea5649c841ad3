"""Limits failed log-ins per minute, from an address and for a token.

The counts are in Redis, where all web processes see them. While Redis is unreachable each process counts for itself:
nobody is locked out by that, and nobody can guess without limit. SFTP has its own throttle, which delays; see there for
the reason.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import redis

from app.accounts.errors import TooManyLogins

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.strategies import MovingWindowRateLimiter

BY_ADDRESS, BY_TOKEN = 5, 10
"""Failures per minute."""
KEYS = "failed-logins"
T = TypeVar("T")
logger = logging.getLogger(__name__)


class LoginThrottle:
    """kind: "login" for the sign-in page, "token" for calls of programs: one does not lock the other."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def require_room(self, kind: str, address: str) -> None:
        """Checks whether this address may try to sign in.

        Raises:
            TooManyLogins: It has failed too often.
        """
        names = (kind, "address", network(address))
        limit = _make_limit(BY_ADDRESS)
        if not self._ask(lambda limiter: limiter.test(limit, *names)):
            raise self._make_refusal(limit, names)

    def failed(self, kind: str, address: str, token_id: str | None) -> None:
        """Counts a failure.

        Raises:
            TooManyLogins: It exceeds the limit, for the address or for the token.
        """
        counted: list[tuple[RateLimitItem, tuple[str, ...]]]
        counted = [(_make_limit(BY_ADDRESS), (kind, "address", network(address)))]
        if token_id is not None:
            counted.append((_make_limit(BY_TOKEN), (kind, "token", token_id)))
        exceeded = [(limit, names) for limit, names in counted if not self._hit(limit, names)]
        if exceeded:
            raise self._make_refusal(*exceeded[0])

    def _hit(self, limit: RateLimitItem, names: tuple[str, ...]) -> bool:
        return self._ask(lambda limiter: limiter.hit(limit, *names))

    def _make_refusal(self, item: RateLimitItem, names: tuple[str, ...]) -> TooManyLogins:
        stats = self._ask(lambda limiter: limiter.get_window_stats(item, *names))
        wait_s = max(1, round(stats.reset_time - time.time() + 0.5))
        return TooManyLogins(
            "Too many failed attempts.", hint=f"Wait {wait_s} s, then try again.", detail={"retry_after_s": wait_s}
        )

    def _ask(self, question: Callable[[MovingWindowRateLimiter], T]) -> T:
        shared, own = self._limiters
        try:
            return question(shared)
        except redis.RedisError as error:
            logger.warning("Failed log-ins are counted in this process alone: %s", error)
            return question(own)

    @cached_property
    def _limiters(self) -> tuple[MovingWindowRateLimiter, MovingWindowRateLimiter]:
        """In Redis, and in this process only. The library is loaded at the first log-in."""
        from limits.storage import MemoryStorage, RedisStorage
        from limits.strategies import MovingWindowRateLimiter

        shared = RedisStorage("redis://", connection_pool=self._client.connection_pool, key_prefix=KEYS)
        return MovingWindowRateLimiter(shared), MovingWindowRateLimiter(MemoryStorage())


def _make_limit(count: int) -> RateLimitItem:
    from limits import RateLimitItemPerMinute

    return RateLimitItemPerMinute(count)


def network(address: str) -> str:
    """The unit of counting: an IPv4 address, or the 64 bits of an IPv6 network."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))
