"""Queue done: the scheduler. It takes in done messages and dispatches what follows."""

from __future__ import annotations

from typing import Any

import dramatiq

from actors import parts


@dramatiq.actor(queue_name="done", max_retries=0)
def done(job_id: str, step: str, result: str, reason: str | None = None, facts: dict[str, Any] | None = None) -> None:
    parts.conversion.dispatch.advance(job_id=job_id, step=step, result=result, reason=reason, facts=facts)
