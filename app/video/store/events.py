"""What happened to jobs."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from app.video.store.tables import events

KEPT = 500
MOST_CHARACTERS = 2000


@dataclass(frozen=True)
class Event:
    """type: the state that was entered, or Note, Offline, Online, Constraint, Policy."""

    at: str
    type: str
    message: str


def add_event(conn: Connection, uid: str, at: str, *, type: str, message: str) -> None:
    """The newest KEPT stay."""
    conn.execute(sa.insert(events).values(uid=uid, at=at, type=str(type), message=message[:MOST_CHARACTERS]))
    oldest = (
        sa.select(events.c.event_id).where(events.c.uid == uid).order_by(events.c.event_id.desc()).offset(KEPT).limit(1)
    )
    limit = conn.execute(oldest).scalar()
    if limit is not None:
        conn.execute(sa.delete(events).where(events.c.uid == uid, events.c.event_id <= limit))


def events_of(conn: Connection, uid: str) -> list[Event]:
    """Oldest first."""
    query = sa.select(events).where(events.c.uid == uid).order_by(events.c.event_id)
    return [Event(row.at, row.type, row.message) for row in conn.execute(query)]
