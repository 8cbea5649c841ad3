"""Numbers of a service's rows, and which of its workers' reports have been taken in."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.store.tables import row_numbers
from app.kit.sql.upsert import upsert


def take_numbers(conn: Connection, uid: str, run: str, batch: int, count: int) -> int | None:
    """Numbers for rows that a worker reports. Whoever asks holds the service's lock.

    Args:
        uid: of the service.
        run: which start of which worker they are of.
        batch: rises with each report of a run.
        count: how many rows there are.

    Returns:
        The first of their numbers; None: this report was taken in before.
    """
    row = conn.execute(sa.select(row_numbers).where(row_numbers.c.uid == uid)).first()
    if row is not None and row.run == run and batch <= row.batch:
        return None
    last = row.number if row is not None else 0
    upsert(conn, row_numbers, {"uid": uid, "number": last + count, "run": run, "batch": batch})
    return int(last) + 1
