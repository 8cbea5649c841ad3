"""The scheduling process: one leader at a time, woken whenever there is work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

import redis

from app.kit import clock
from app.kit.redis import leader
from app.kit.redis.lease import RedisLease
from app.training.metrics.counters import TICK_SECONDS
from app.training.service.scheduling import Watch
from app.training.service.wake_up import wait_for_wake_up

LEASE, LEASE_S = "training:leader", 10.0
RENEW_S = leader.RENEW_S


class TickingScheduler(Protocol):
    def tick(self, now: datetime, watch: Watch) -> bool: ...
    def has_news(self) -> bool: ...


class TrainingLeader(leader.Leader):
    """Schedules as long as it leads.

    Args:
        tick_s: between two ticks, in seconds.
        is_ending: whether this process has been told to end.
        now: for tests.
    """

    def __init__(
        self,
        client: redis.Redis,
        scheduler: TickingScheduler,
        *,
        tick_s: float,
        is_ending: Callable[[], bool],
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        def tick(at: datetime, watch: Watch) -> bool:
            with TICK_SECONDS.time():
                return scheduler.tick(at, watch)

        super().__init__(
            RedisLease(client, LEASE, ttl_s=LEASE_S),
            tick,
            work="training is scheduled",
            tick_s=tick_s,
            is_ending=is_ending,
            wait=lambda seconds: wait_for_wake_up(client, seconds) or scheduler.has_news(),
            renew_s=RENEW_S,
            now=now,
        )
