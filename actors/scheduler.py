"""Queue done: the scheduler. It receives done messages and dispatches the next stage."""

from __future__ import annotations

from functools import partial

from actors.process import actor, container
from app.kit.queue.messages import Message
from app.kit.queue.retry import until_answered
from app.kit.text.json_values import JsonObject


# Not notified of a shutdown: a few milliseconds from its end, it must not be cut off between record and queue.
@actor(Message.DONE, notify_shutdown=False)
def done(job_id: str, step: str, result: str, reason: str | None = None, facts: JsonObject | None = None) -> None:
    """A stage of a job has ended.

    Args:
        step: the stage that has ended, as messages name it.
        result: `ok` or `fail`.
        reason: why it failed; None: it did not.
        facts: what the stage says of itself, for the record.
    """
    advance = partial(container.conversion.dispatch.advance, job_id=job_id, step=step)
    until_answered(partial(advance, result=result, reason=reason, facts=facts), f"advance job {job_id}")
