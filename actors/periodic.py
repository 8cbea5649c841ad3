"""What happens by the clock, pulsed by `periodiq actors`. Each may run twice: two pulses do no harm."""

from __future__ import annotations

from periodiq import cron

from actors.process import actor, container
from app.kit.clock import now
from app.kit.queue.messages import Message


@actor(Message.SWEEP, periodic=cron("* * * * *"))
def sweep() -> None:
    """Find what no worker reports by itself: dead hosts, lost dispatches."""
    container.conversion.dispatch.sweep()


@actor(Message.EXPIRE, periodic=cron("17 * * * *"))
def expire() -> None:
    """Delete finished jobs and uploads whose time is over."""
    container.conversion.expiry.sweep(now())
