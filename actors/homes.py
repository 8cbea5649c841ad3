"""What data homes have done by the clock, and at once after a change of a user. Each may run twice."""

from __future__ import annotations

import dramatiq
from periodiq import cron

from actors import parts
from app.kit.clock import now


@dramatiq.actor(queue_name="periodic", max_retries=0, periodic=cron("* * * * *"))
def apply_door(entry_id: int | None = None) -> None:
    """Tell the SFTP door what changed with the users, and at each pulse which tokens have ended."""
    parts.homes.outbox.apply_due(now(), entry_id=entry_id)
    if entry_id is None:
        parts.homes.sftp.end_bound(now())


@dramatiq.actor(queue_name="periodic", max_retries=0, periodic=cron("41 * * * *"))
def clear_homes() -> None:
    """Folders of ended jobs into the trash and out of it; removed files for good."""
    parts.homes.clear(now())
