"""The edge workers of services: what each last reported, and the numbers of its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.store.tables import edges
from app.kit.sql.rows import upsert
from app.kit.text.json_values import JsonObject


def put_report(conn: Connection, uid: str, node: str, reported: Mapping[str, Any]) -> None:
    """
    Args:
        uid: of the service.
        node: that its worker runs on.
        reported: the taskInfo, with its phase.
    """
    upsert(conn, edges, {"uid": uid, "node": node, "reported": json.dumps(reported)})


def reports_of(conn: Connection, uid: str) -> dict[str, JsonObject]:
    """The last taskInfo of each node."""
    rows = conn.execute(sa.select(edges.c.node, edges.c.reported).where(edges.c.uid == uid))
    return {row.node: json.loads(row.reported) for row in rows}


def take_numbers(conn: Connection, uid: str, node: str, run: str, batch: int, count: int) -> int | None:
    """Numbers for rows that a worker reports. The caller holds the service's lock.

    Args:
        uid: of the service.
        node: that the worker runs on.
        run: which start of which worker they are of.
        batch: rises with each report of a run.
        count: how many rows there are.

    Returns:
        The first of their numbers; None: this report was taken in before.
    """
    rows = conn.execute(sa.select(edges).where(edges.c.uid == uid)).all()
    if any(row.run == run and batch <= row.batch for row in rows):
        return None
    last = max((row.number for row in rows), default=0)
    upsert(conn, edges, {"uid": uid, "node": node, "number": last + count, "run": run, "batch": batch})
    return int(last) + 1
