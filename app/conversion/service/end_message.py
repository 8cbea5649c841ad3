"""The message that announces the end of a job to the other capabilities: it is sent in the step that ends the job."""

from __future__ import annotations

from app.conversion.store import JobStore
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.messages import Message
from app.kit.redis.records import OutgoingMessage

PREFIX = "ended:"
OLDEST = 200
"""Number of messages checked at a time."""


def end_message(broker: BlockingBroker, job_id: str) -> OutgoingMessage:
    """The message for this job; there is at most one per job."""
    message = Message.JOB_ENDED
    return broker.prepare(message.queue, message, message_id=f"{PREFIX}{job_id}", job_id=job_id)


def take_back_stale(broker: BlockingBroker, store: JobStore) -> int:
    """Removes the oldest messages whose jobs' records are gone, so that a queue without a consumer does not grow
    forever.

    Returns:
        The number of removed messages.
    """
    queue = Message.JOB_ENDED.queue.value
    waiting = [name.removeprefix(PREFIX) for name in broker.oldest(queue, OLDEST) if name.startswith(PREFIX)]
    stale = set(waiting) - store.existing(waiting)
    return sum(broker.take_back(queue, f"{PREFIX}{job_id}") for job_id in stale)
