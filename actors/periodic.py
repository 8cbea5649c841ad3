"""Periodic work, pulsed by `periodiq actors`. Each actor may run twice: two pulses do no harm."""

from __future__ import annotations

from periodiq import cron

from actors.process import actor, container
from app.conversion.service.end_message import take_back_stale
from app.kit.clock import now
from app.kit.queue.messages import Message
from app.kit.queue.retry import until_next_pulse


@actor(Message.SWEEP, periodic=cron("* * * * *"))
def sweep() -> None:
    """Find what no worker reports by itself: dead hosts, lost dispatches."""
    with until_next_pulse("The sweep"):
        dispatch, leases = container.conversion.dispatch, container.conversion.work_leases
        for job_id in leases.overdue():
            dispatch.resume(job_id)
        dispatch.sweep(parked=leases.parked())
        container.conversion.dispatch.completion.catch_up()
        take_back_stale(dispatch.broker, container.store)


@actor(Message.EXPIRE, periodic=cron("17 * * * *"))
def expire() -> None:
    """Delete finished jobs and uploads whose time is over."""
    with until_next_pulse("What has expired"):
        container.conversion.expiry.sweep(now())
        container.archive.expire_deleted_users(now())


@actor(Message.SWEEP_CACHE, periodic=cron("*/5 * * * *"))
def sweep_cache() -> None:
    """Keep the cache of stages within its size."""
    with until_next_pulse("The sweep of the cache"):
        container.conversion.cache_sweep.sweep(now())
