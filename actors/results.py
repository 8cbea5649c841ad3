"""Actors that deliver results, and delete old ones. Each may run twice."""

from __future__ import annotations

import logging

from periodiq import cron

from actors.process import actor, container
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.process.coalesced_step import CoalescedStep
from app.kit.queue.messages import Message

logger = logging.getLogger(__name__)


@actor(Message.DELIVER_ROWS, periodic=cron("* * * * *"))
def deliver_rows() -> None:
    """Deliver what waits for sinks. What is not delivered now is found by the next pulse."""
    delivering.run()


def _deliver() -> None:
    try:
        container.results.sinks.deliver_due()
    except ModelmillError as error:
        logger.warning("Nothing is delivered to sinks now: %s", error.message)


delivering = CoalescedStep(_deliver)
"""One thread of this process delivers, to many sinks at once."""


@actor(Message.ORDER_SINKS, periodic=cron("* * * * *"))
def order_sinks() -> None:
    """What nodes are to deliver themselves: users and producers may have changed."""
    container.node_sinks.reconcile_all()


@actor(Message.FORGET_OLD_ROWS, periodic=cron("47 * * * *"))
def forget_old_rows() -> None:
    """Rows and events that were kept for long enough, and what a producer has too many of."""
    container.results.rows.forget_old(now())
    container.results.rules.forget_old(now())
