"""Actors of data homes: periodic work, and updates after a change of a user. Each may run twice."""

from __future__ import annotations

from periodiq import cron

from actors.process import actor, container
from app.kit.clock import now
from app.kit.queue.messages import Message


@actor(Message.APPLY_DOOR, periodic=cron("* * * * *"))
def apply_door(entry_id: int | None = None) -> None:
    """Tell the SFTP server what changed with the users, and at each pulse which tokens have ended."""
    container.homes.outbox.apply_due(now(), entry_id=entry_id)
    if entry_id is None:
        container.homes.sftp.end_bound(now())


@actor(Message.CLEAR_HOMES, periodic=cron("41 * * * *"))
def clear_homes() -> None:
    """Folders of ended jobs into the trash and out of it; removed files for good."""
    container.homes.clear(now())
