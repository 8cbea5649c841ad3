"""The watches over drift: at most one of a service. Runs in the caller's transactions."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.model.drift import DRIFT, Drift
from app.joint_inference.store.tables import drifts
from app.kit.sql.rows import upsert


def put_drift(conn: Connection, uid: str, drift: Drift) -> None:
    upsert(conn, drifts, {"uid": uid, "drift": json.dumps(DRIFT.write(drift))})


def drift_of(conn: Connection, uid: str) -> Drift | None:
    text = conn.scalar(sa.select(drifts.c.drift).where(drifts.c.uid == uid))
    return DRIFT.read(json.loads(text)) if text else None


def drifts_of(conn: Connection) -> dict[str, Drift]:
    """Of all services, by uid."""
    rows = conn.execute(sa.select(drifts.c.uid, drifts.c.drift))
    return {row.uid: DRIFT.read(json.loads(row.drift)) for row in rows}


def forget_drift(conn: Connection, uid: str) -> bool:
    """True: there was one."""
    return conn.execute(sa.delete(drifts).where(drifts.c.uid == uid)).rowcount > 0
