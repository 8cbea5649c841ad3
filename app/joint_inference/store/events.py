"""What happened to services."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.store.tables import events

KEPT = 200


@dataclass(frozen=True)
class ServiceEvent:
    """A change of the current condition. type: Pending, Running, Failed, Warning; Changed, when its user did that."""

    at: str
    type: str
    reason: str
    message: str


def add_event(conn: Connection, uid: str, at: str, *, type: str, reason: str, message: str) -> None:
    """The newest KEPT stay: a worker that ends again and again must not fill the disk."""
    conn.execute(sa.insert(events).values(uid=uid, at=at, type=type, reason=reason, message=message))
    oldest = (
        sa.select(events.c.event_id).where(events.c.uid == uid).order_by(events.c.event_id.desc()).offset(KEPT).limit(1)
    )
    limit = conn.execute(oldest).scalar()
    if limit is not None:
        conn.execute(sa.delete(events).where(events.c.uid == uid, events.c.event_id <= limit))


def events_of(conn: Connection, uid: str, limit: int) -> list[ServiceEvent]:
    """Newest first."""
    wanted = sa.select(events).where(events.c.uid == uid).order_by(events.c.event_id.desc()).limit(limit)
    return [ServiceEvent(row.at, row.type, row.reason, row.message) for row in conn.execute(wanted)]


def forget_events(conn: Connection, uids: Collection[str]) -> None:
    conn.execute(sa.delete(events).where(events.c.uid.in_(uids)))
