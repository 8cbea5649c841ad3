"""What happened to tasks."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.training.model import (
    TaskEvent,
)
from app.training.store.changes import note_task
from app.training.store.tables import events


def add_event(conn: Connection, task_id: str, kind: str, at: str, detail: dict[str, Any] | None = None) -> None:
    conn.execute(
        sa.insert(events).values(task_id=task_id, at=at, event_type=kind, payload_json=json.dumps(detail or {}))
    )
    note_task(conn, task_id)


def events_of(conn: Connection, task_id: str, *, after: int = 0, limit: int = 1000) -> list[TaskEvent]:
    """Oldest first. after: an event_id."""
    theirs = (events.c.task_id == task_id, events.c.event_id > after)
    wanted = sa.select(events).where(*theirs).order_by(events.c.event_id).limit(limit)
    return [
        TaskEvent(row.event_id, row.task_id, row.at, row.event_type, json.loads(row.payload_json))
        for row in conn.execute(wanted)
    ]
