"""One leader at a time, for one turn per minute, started by a pulse.

The pulse comes once a minute at best, and through a queue. The receiver takes the lease and ticks until shortly before
the next pulse. A turn ends with the minute, not after a number of seconds: otherwise it would overlap the next pulse,
which would find the lease taken and leave a gap of a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

import redis

from app.kit import clock
from app.kit.errors import ModelmillError
from app.kit.lease import Lease

RENEW_S = 3.0
HURRY_S = 1.0
"""Pause between ticks while something is in transition."""
SLICE_S = 1.0
"""How soon a waiting leader notices that its process ends."""
LAST_SECOND = 58
"""Margin of a turn. A pulse that arrives after it belongs to the next minute: the sender's clock is slightly ahead."""
PATIENCE_S = 2.0
"""How much longer than the lease's lifetime the next process waits for a leader that died."""
POLL_S = 0.25
logger = logging.getLogger(__name__)

Watch = Callable[[], None]
"""Raises Superseded if the tick should end: another process leads, or this one ends. Called between any two
operations."""
Tick = Callable[[datetime, Watch], bool]
"""Whether anything is in transition, so that checking again soon is worthwhile."""
Wait = Callable[[float], bool]
"""Waits at most this many seconds. True: there is work to do at once. May raise redis.RedisError."""


class Superseded(Exception):  # not an error: another process now runs the tick
    """Ends the current tick: the next tick continues what it has started."""


def sleep(seconds: float) -> bool:
    """How a leader waits if nothing wakes it."""
    time.sleep(seconds)
    return False


@dataclass(eq=False)
class Leader:
    """Repeats its work while it leads.

    Args:
        lease: the lease of the leader.
        tick: one pass of the work.
        work: its description in logs, such as `training is scheduled`.
        tick_s: between two ticks, in seconds.
        is_ending: whether this process has been told to end.
        wait: waits between ticks.
        renew_s: age at which the lease is renewed, in seconds.
        now: the clock, for tests.
    """

    lease: Lease
    tick: Tick
    _: KW_ONLY
    work: str
    tick_s: float
    is_ending: Callable[[], bool]
    wait: Wait = sleep
    renew_s: float = RENEW_S
    now: Callable[[], datetime] = clock.now

    def __post_init__(self) -> None:
        self._renewed_at = 0.0

    def lead(self) -> None:
        """Runs one turn. If Redis becomes unreachable, the turn ends: the next pulse starts a new one."""
        until = (self.now() + timedelta(seconds=60 - LAST_SECOND)).replace(second=LAST_SECOND, microsecond=0)
        try:
            if self._take(until):
                self._lead(until)
        except redis.RedisError as error:
            logger.warning("Until Redis answers again nobody leads, and %s by none: %s", self.work, error)

    def _take(self, until: datetime) -> bool:
        deadline = time.monotonic() + self.lease.ttl_s + PATIENCE_S
        while not self._is_over(until) and time.monotonic() < deadline:
            if self.lease.take():
                self._renewed_at = time.monotonic()
                return True
            time.sleep(POLL_S)
        return False

    def _lead(self, until: datetime) -> None:
        logger.debug("Until %s %s by this process.", until.time(), self.work)
        try:
            while not self._is_over(until):
                is_moving = self._renew_lease()
                self._wait(until, min(HURRY_S, self.tick_s) if is_moving else self.tick_s)
        except Superseded:
            logger.info("This turn, in which %s, ends early: another leads, or this process ends.", self.work)
        finally:
            with suppress(redis.RedisError):
                self.lease.release()

    def _renew_lease(self) -> bool:
        try:
            return self.tick(self.now(), self._watch)
        except ModelmillError as error:  # the database: the next tick continues what was started
            logger.warning("This tick was broken off: %s", error.message)
            return False

    def _wait(self, until: datetime, seconds: float) -> None:
        """Waits until the next tick is due, or something wakes it."""
        deadline = time.monotonic() + seconds
        while (left_s := deadline - time.monotonic()) > 0 and not self._is_over(until):
            self._watch()
            if self.wait(max(0.01, min(left_s, SLICE_S))):
                return

    def _watch(self) -> None:
        if self.is_ending():
            raise Superseded
        if time.monotonic() - self._renewed_at > self.renew_s:
            if not self.lease.take():  # also if a slow call let it expire and nobody else took it
                raise Superseded
            self._renewed_at = time.monotonic()

    def _is_over(self, until: datetime) -> bool:
        return self.is_ending() or self.now() >= until
