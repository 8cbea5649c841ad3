"""Leases for work in progress, so that a second job with the same work waits for the first instead of repeating it.

The working job holds a lease in Redis and renews it; if its worker dies, the lease expires. A later job is parked: it
returns to its queue when the lease is released, or when the sweep detects the expired lease. So nobody waits forever,
and no worker is blocked by a waiting job. While Redis does not answer, every job does its own work.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

import redis

from app.kit.process.periodic_thread import PeriodicThread
from app.kit.redis.lease import RedisLease

PARKED = "stage-work:parked"
"""Hash: the job → the lease that it waits for."""
TTL_S = 30.0
PARK = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], KEYS[1])
return 1
"""
logger = logging.getLogger(__name__)


class Turn(Enum):
    MINE = auto()
    """The caller does the work."""
    PARKED = auto()
    """Another job is doing it, and this job is resumed when that has ended."""


class WorkLeases:
    """
    Args:
        resume: Returns a job to the queue of its stage. May raise redis.RedisError.
    """

    def __init__(self, client: redis.Redis, resume: Callable[[str], None], *, ttl_s: float = TTL_S) -> None:
        self._client: Any = client
        self._park = client.register_script(PARK)
        self._resume = resume
        self._ttl_s = ttl_s

    @contextlib.contextmanager
    def turn(self, work: str, job_id: str) -> Iterator[Turn]:
        """
        Args:
            work: Its key, with the owner of the cache.
        """
        lease = RedisLease(self._client, f"stage-work:{work}", ttl_s=self._ttl_s)
        try:
            is_parked = not lease.take() and bool(self._park(keys=[lease.name, PARKED], args=[job_id]))
        except redis.RedisError as error:
            logger.warning("Job %s does not know whether its work is being done, and does it: %s", job_id, error)
            is_parked = False
        if is_parked:
            yield Turn.PARKED
            return
        renewal = PeriodicThread("work-lease", lambda: _call_quietly(lease.renew), every_s=self._ttl_s / 3)
        renewal.start()
        try:
            yield Turn.MINE
        finally:
            renewal.close()
            _call_quietly(lambda: self._release(lease))

    def overdue(self) -> set[str]:
        """The parked jobs whose work nobody is doing; they are no longer parked."""
        return self._unpark({job_id for job_id, name in self._read_parked().items() if not self._client.exists(name)})

    def parked(self) -> set[str]:
        return set(self._read_parked())

    def _release(self, lease: RedisLease) -> None:
        lease.release()
        for job_id in self._unpark({job_id for job_id, name in self._read_parked().items() if name == lease.name}):
            self._resume(job_id)

    def _read_parked(self) -> dict[str, str]:
        return {job_id.decode(): name.decode() for job_id, name in self._client.hgetall(PARKED).items()}

    def _unpark(self, job_ids: set[str]) -> set[str]:
        """Those of these that nobody else has unparked meanwhile."""
        return {job_id for job_id in job_ids if self._client.hdel(PARKED, job_id)}


def _call_quietly(call: Callable[[], object]) -> None:
    """A failure here only costs time: the lease expires, and the sweep finds the waiting jobs."""
    try:
        call()
    except redis.RedisError as error:
        logger.warning("A lease on the work of a stage is left to itself: %s", error)
