"""The events of jobs, and the decisions of their policies. The newest HISTORY rows of each are kept per job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.text.plain_text import json_text
from app.video.store.tables import decisions, events

HISTORY = 500
MAX_MESSAGE_CHARS = 2000


@dataclass(frozen=True)
class JobEvent:
    """Something that happened to a job."""

    at: str
    type: str
    """The state that was entered, or Note, Offline, Online, Constraint, Policy."""
    message: str


@dataclass(frozen=True)
class DecisionRecord:
    """A row of the decision log."""

    at: str
    seq: int
    policy: str
    why: str
    """What asked for it."""
    outcome: str
    """See app.video.scheduling.policy_messages.Decision."""
    reason: str
    took_ms: float
    inputs_hash: str
    plan: Mapping[str, Any] | None
    """As Plan.to_json; None if the last one stayed."""


def add_event(conn: Connection, uid: str, at: str, *, type: str, message: str) -> None:
    """Note an event; the oldest of the job go.

    Args:
        at: text in ISO 8601.
        message: a sentence; cut at MAX_MESSAGE_CHARS.
    """
    conn.execute(sa.insert(events).values(uid=uid, at=at, type=str(type), message=message[:MAX_MESSAGE_CHARS]))
    _trim(conn, events, events.c.event_id, uid)


def events_of(conn: Connection, uid: str) -> list[JobEvent]:
    """Oldest first."""
    query = sa.select(events).where(events.c.uid == uid).order_by(events.c.event_id)
    return [JobEvent(row.at, row.type, row.message) for row in conn.execute(query)]


def add_decision(conn: Connection, uid: str, decided: DecisionRecord) -> None:
    plan = json_text(decided.plan) if decided.plan is not None else ""
    conn.execute(sa.insert(decisions).values(**{**vars(decided), "uid": uid, "plan": plan}))
    _trim(conn, decisions, decisions.c.decision_id, uid)


def decisions_of(conn: Connection, uid: str, limit: int) -> list[DecisionRecord]:
    """Newest first."""
    query = sa.select(decisions).where(decisions.c.uid == uid).order_by(decisions.c.decision_id.desc()).limit(limit)
    return [_read_decision(row) for row in conn.execute(query)]


def last_decision(conn: Connection, uid: str) -> DecisionRecord | None:
    return next(iter(decisions_of(conn, uid, 1)), None)


def _trim(conn: Connection, table: sa.Table, number: sa.Column[int], uid: str) -> None:
    """number: the column that rises with each row."""
    oldest = sa.select(number).where(table.c.uid == uid).order_by(number.desc()).offset(HISTORY).limit(1)
    limit = conn.execute(oldest).scalar()
    if limit is not None:
        conn.execute(sa.delete(table).where(table.c.uid == uid, number <= limit))


def _read_decision(row: Row[Any]) -> DecisionRecord:
    columns = {name: row._mapping[name] for name in DecisionRecord.__dataclass_fields__}
    return DecisionRecord(**{**columns, "plan": json.loads(row.plan) if row.plan else None})
