"""Actors of notifications: they turn events into messages, and send them. Each may run twice."""

from __future__ import annotations

import logging
from functools import partial

from periodiq import cron

from actors.process import actor, container
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.process.coalesced_step import CoalescedStep
from app.kit.queue.messages import Message
from app.kit.queue.retry import until_answered

AGAIN_MS = 5000
logger = logging.getLogger(__name__)


@actor(Message.JOB_ENDED)
def job_ended(job_id: str) -> None:
    """Write down who is to be told, and the result where the job is of a sweep. While the database stalls the message
    goes back, and is not lost."""
    from app.bootstrap.events import job_event

    record = until_answered(partial(container.store.get, job_id), f"read job {job_id}")
    if record is None or not record.is_terminal:
        return
    try:
        container.notifications.outbox.note(job_event(record))
        container.sweeps.note_end(record)
    except ModelmillError as error:
        logger.warning("Who is to be told of job %s is not written down yet: %s", job_id, error.message)
        again = partial(job_ended.send_with_options, kwargs={"job_id": job_id}, delay=AGAIN_MS)
        until_answered(again, f"put back the message of job {job_id}")


@actor(Message.DELIVER, periodic=cron("* * * * *"))
def deliver() -> None:
    """Send what is due. What is not sent now is found by the next pulse."""
    sending.run()


def _send() -> None:
    try:
        container.notifications.outbox.deliver_due()
    except ModelmillError as error:
        logger.warning("Nothing is sent now: %s", error.message)


sending = CoalescedStep(_send)
"""One thread of this process sends, many messages at once."""


@actor(Message.FORGET_DELIVERIES, periodic=cron("37 * * * *"))
def forget_deliveries() -> None:
    """Messages that ended long ago."""
    container.notifications.outbox.forget_old(now())
