"""One leader at a time, for one turn each minute, which a pulse begins.

The pulse comes once a minute at best, and through a queue. So whoever gets it takes the lease and ticks until shortly
before the next. A turn ends with the minute and not after so many seconds: it would overlap the next pulse, which then
found the lease taken, and leave a hole of a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import redis

from app.kit import clock
from app.kit.errors import ModelmillError
from app.kit.lease import Lease

RENEW_S = 2.0
HURRY_S = 1.0
"""Until the next tick while something is on its way."""
SLICE_S = 1.0
"""So soon a waiting leader sees that its process ends."""
LAST_SECOND = 58
"""Of a turn. A pulse that comes after it belongs to the next minute: the clock of whoever sent it is a little ahead."""
PATIENCE_S = 2.0
"""So much longer than its lease lives the next waits for a leader that died."""
POLL_S = 0.25
logger = logging.getLogger(__name__)

Watch = Callable[[], None]
"""Raises Superseded when the tick is to end: another leads, or this process ends. Called between any two deeds."""
Tick = Callable[[datetime, Watch], bool]
"""Is anything on its way, so that it is worth while to look again soon?"""
Wait = Callable[[float], bool]
"""Wait so many seconds at most. True: there is something to do at once. May raise redis.RedisError."""


class Superseded(Exception):  # no error: the tick is simply somebody else's now
    """Whoever is in the middle of something leaves it: what it has begun is found by the next tick."""


def sleep(seconds: float) -> bool:
    """How a leader waits whom nobody wakes."""
    time.sleep(seconds)
    return False


class Leader:
    """Does something as long as it leads.

    Args:
        lease: free, or another's, until it leads.
        tick: the work, once.
        work: what the log calls it, as `training is scheduled`.
        tick_s: between two ticks, in seconds.
        is_ending: is this process told to end?
        wait: how it waits between ticks.
        renew_s: how old the lease may become before it is renewed, in seconds.
        now: for tests.
    """

    def __init__(
        self,
        lease: Lease,
        tick: Tick,
        *,
        work: str,
        tick_s: float,
        is_ending: Callable[[], bool],
        wait: Wait = sleep,
        renew_s: float = RENEW_S,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._lease = lease
        self._do = tick
        self._work = work
        self._tick_s = tick_s
        self._is_ending = is_ending
        self._wait_for_more = wait
        self._renew_s = renew_s
        self._now = now
        self._renewed_at = 0.0

    def lead(self) -> None:
        """One turn. Redis being away ends it: the next pulse begins anew."""
        until = (self._now() + timedelta(seconds=60 - LAST_SECOND)).replace(second=LAST_SECOND, microsecond=0)
        try:
            if self._take(until):
                self._lead(until)
        except redis.RedisError as error:
            logger.warning("Until Redis answers again nobody leads, and %s by none: %s", self._work, error)

    def _take(self, until: datetime) -> bool:
        deadline = time.monotonic() + self._lease.ttl_s + PATIENCE_S
        while not self._is_over(until) and time.monotonic() < deadline:
            if self._lease.take():
                self._renewed_at = time.monotonic()
                return True
            time.sleep(POLL_S)
        return False

    def _lead(self, until: datetime) -> None:
        logger.debug("Until %s %s by this process.", until.time(), self._work)
        try:
            while not self._is_over(until):
                is_moving = self._tick()
                self._wait(until, min(HURRY_S, self._tick_s) if is_moving else self._tick_s)
        except Superseded:
            logger.info("This turn, in which %s, ends early: another leads, or this process ends.", self._work)
        finally:
            with suppress(redis.RedisError):
                self._lease.release()

    def _tick(self) -> bool:
        try:
            return self._do(self._now(), self._watch)
        except ModelmillError as error:  # the database: what was begun is found by the next tick
            logger.warning("This tick was broken off: %s", error.message)
            return False

    def _wait(self, until: datetime, seconds: float) -> None:
        """Until it is time to look again, or somebody wakes it."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0 and not self._is_over(until):
            self._watch()
            if self._wait_for_more(max(0.01, min(left_s, SLICE_S))):
                return

    def _watch(self) -> None:
        if self._is_ending():
            raise Superseded
        if time.monotonic() - self._renewed_at > self._renew_s:
            if not self._lease.take():  # also when a slow call let it run out, and nobody wanted it
                raise Superseded
            self._renewed_at = time.monotonic()

    def _is_over(self, until: datetime) -> bool:
        return self._is_ending() or self._now() >= until
