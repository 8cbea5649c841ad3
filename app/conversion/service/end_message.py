"""What tells the rest of the product that a job has ended: it goes out in the step that ends the job."""

from __future__ import annotations

from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.message import OutgoingMessage
from app.kit.queue.messages import Message


def end_message(broker: BlockingBroker, job_id: str) -> OutgoingMessage:
    """Of this job; there is one of each at most."""
    message = Message.JOB_ENDED
    return broker.prepare(message.queue.value, message.value, message_id=f"ended:{job_id}", job_id=job_id)
