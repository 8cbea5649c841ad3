"""Events of services in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.store.tables import events

KEPT = 200


@dataclass(frozen=True)
class ServiceEvent:
    """A change of the current condition."""

    at: str
    type: str
    """Pending, Running, Failed, Warning; Changed, when its user did that."""
    reason: str
    message: str


def add_event(conn: Connection, uid: str, at: str, *, type: str, reason: str, message: str) -> None:
    """Note an event. The newest KEPT stay: a worker that ends again and again must not fill the disk.

    Args:
        at: text in ISO 8601.
        type: Normal or Warning.
        reason: one word, in Kubernetes' way.
    """
    conn.execute(sa.insert(events).values(uid=uid, at=at, type=type, reason=reason, message=message))
    oldest = (
        sa.select(events.c.event_id).where(events.c.uid == uid).order_by(events.c.event_id.desc()).offset(KEPT).limit(1)
    )
    limit = conn.execute(oldest).scalar()
    if limit is not None:
        conn.execute(sa.delete(events).where(events.c.uid == uid, events.c.event_id <= limit))


def events_of(conn: Connection, uid: str, limit: int) -> list[ServiceEvent]:
    """Newest first."""
    newest = sa.select(events).where(events.c.uid == uid).order_by(events.c.event_id.desc()).limit(limit)
    return [ServiceEvent(row.at, row.type, row.reason, row.message) for row in conn.execute(newest)]


def note_condition(conn: Connection, uid: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Note what has become true since: the current condition, or a warning.

    Args:
        uid: of the service.
        before: its former status, as JSON.
        after: its new one.
    """
    shown = {(c["type"], c["lastTransitionTime"]) for c in before.get("conditions", ())}
    for condition in after.get("conditions", ()):
        if condition["status"] == "True" and (condition["type"], condition["lastTransitionTime"]) not in shown:
            add_event(
                conn,
                uid,
                condition["lastTransitionTime"],
                type=condition["type"],
                reason=condition["reason"],
                message=condition["message"],
            )
