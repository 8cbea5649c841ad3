"""What happens by the clock, pulsed by `periodiq actors`. Each may run twice: two pulses do no harm."""

from __future__ import annotations

import dramatiq
from periodiq import cron

from actors import parts
from app.kit.clock import now


@dramatiq.actor(queue_name="periodic", max_retries=0, periodic=cron("* * * * *"))
def sweep() -> None:
    """Find what no worker reports by itself: dead hosts, lost dispatches."""
    parts.conversion.dispatch.sweep()


@dramatiq.actor(queue_name="periodic", max_retries=0, periodic=cron("17 * * * *"))
def expire() -> None:
    """Delete finished jobs and uploads whose time is over."""
    parts.conversion.expiry.sweep(now())
