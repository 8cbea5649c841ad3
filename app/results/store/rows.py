"""The rows of frames that were answered. Runs in the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql.rows import insert_into, within
from app.results.model.frame_result import FrameRecord, ResultFilter, labels_in
from app.results.store.tables import crossings, rows

SEPARATOR = "\n"
"""Between the classes of a row, and at both ends: no name of a class has it."""


def add_rows(conn: Connection, uid: str, records: Sequence[FrameRecord], stored_at: str) -> None:
    """One that is there already stays as it is.

    Args:
        uid: of the producer.
        records: oldest first.
        stored_at: by the web's clock, text in ISO 8601.
    """
    if not records:
        return
    values = [
        {
            "uid": uid,
            "n_loop": one.n_loop,
            "at": one.at,
            "labels": _join(labels_in(one.row)),
            "row": json.dumps(one.row),
            "stored_at": stored_at,
        }
        for one in records
    ]
    conn.execute(insert_into(conn, rows).on_conflict_do_nothing(), values)


def rows_of(
    conn: Connection,
    uid: str,
    chosen: ResultFilter,
    *,
    after: int | None = None,
    before: int | None = None,
    newest_first: bool = False,
    limit: int,
) -> list[FrameRecord]:
    """Rows of a producer, in the order of the frames. Scores are not looked at here.

    Args:
        after: number of a frame, excluded.
        before: number of a frame, excluded.
    """
    c = rows.c
    conditions = [c.uid == uid, *within(c.at, chosen.since, chosen.until)]
    if chosen.label:
        conditions.append(c.labels.contains(_join([chosen.label]), autoescape=True))
    if after is not None:
        conditions.append(c.n_loop > after)
    if before is not None:
        conditions.append(c.n_loop < before)
    order = c.n_loop.desc() if newest_first else c.n_loop
    query = sa.select(c.n_loop, c.at, c.row, c.stored_at).where(*conditions).order_by(order).limit(limit)
    return [FrameRecord(one.n_loop, one.at, json.loads(one.row), one.stored_at or "") for one in conn.execute(query)]


def last_row(conn: Connection, uid: str) -> int:
    """Number of the newest that is kept; 0: there is none."""
    return int(conn.scalar(sa.select(sa.func.max(rows.c.n_loop)).where(rows.c.uid == uid)) or 0)


def forget_rows_before(conn: Connection, at: str) -> int:
    """Of all producers, with the crossings in them, by when they were stored: a node's clock may be wrong. Returns how
    many rows."""
    conn.execute(sa.delete(crossings).where(crossings.c.stored_at < at))
    return conn.execute(sa.delete(rows).where(rows.c.stored_at < at)).rowcount


def trim_rows(conn: Connection, uid: str, most: int) -> int:
    """Keeps the newest, with the crossings in them. Returns how many rows went."""
    c = rows.c
    oldest_kept = sa.select(c.n_loop).where(c.uid == uid).order_by(c.n_loop.desc()).offset(most).limit(1)
    limit = conn.execute(oldest_kept).scalar()
    if limit is None:
        return 0
    conn.execute(sa.delete(crossings).where(crossings.c.uid == uid, crossings.c.n_loop <= limit))
    return conn.execute(sa.delete(rows).where(c.uid == uid, c.n_loop <= limit)).rowcount


def _join(labels: Sequence[str]) -> str:
    return f"{SEPARATOR}{SEPARATOR.join(labels)}{SEPARATOR}" if labels else ""
