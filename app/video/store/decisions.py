"""What the policies decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.video.store.rows import as_text
from app.video.store.tables import decisions

KEPT = 500


@dataclass(frozen=True)
class Decided:
    """A row of the decision log. plan: as Plan.to_json, or None where the last one stayed."""

    at: str
    seq: int
    policy: str
    why: str
    outcome: str
    reason: str
    took_ms: float
    inputs_hash: str
    plan: Mapping[str, Any] | None


def add_decision(conn: Connection, uid: str, decided: Decided) -> None:
    """The newest KEPT stay."""
    plan = as_text(decided.plan) if decided.plan is not None else ""
    conn.execute(sa.insert(decisions).values(**{**vars(decided), "uid": uid, "plan": plan}))
    c = decisions.c
    oldest = sa.select(c.decision_id).where(c.uid == uid).order_by(c.decision_id.desc()).offset(KEPT).limit(1)
    limit = conn.execute(oldest).scalar()
    if limit is not None:
        conn.execute(sa.delete(decisions).where(c.uid == uid, c.decision_id <= limit))


def decisions_of(conn: Connection, uid: str, limit: int) -> list[Decided]:
    """Newest first."""
    query = sa.select(decisions).where(decisions.c.uid == uid).order_by(decisions.c.decision_id.desc()).limit(limit)
    return [_decided(row) for row in conn.execute(query)]


def last_decision(conn: Connection, uid: str) -> Decided | None:
    return next(iter(decisions_of(conn, uid, 1)), None)


def _decided(row: Any) -> Decided:
    return Decided(
        row.at,
        row.seq,
        row.policy,
        row.why,
        row.outcome,
        row.reason,
        row.took_ms,
        row.inputs_hash,
        json.loads(row.plan) if row.plan else None,
    )
