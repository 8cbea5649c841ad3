"""What was measured of stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from app.video.model.plan import RESOLUTIONS
from app.video.model.profile import Measurement
from app.video.store.tables import measurements as table

KEYS = ("node", "stage", "model", "resolution")
_BY_SIZE = list(RESOLUTIONS)


def put_measurements(conn: Connection, rows: Iterable[Measurement]) -> None:
    """Each in place of the one before. In one turn, so that two who do so do not wait for each other."""
    insert = sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert
    for row in sorted(rows, key=lambda row: tuple(getattr(row, key) for key in KEYS)):
        values = vars(row)
        changed = {name: value for name, value in values.items() if name not in KEYS}
        conn.execute(insert(table).values(**values).on_conflict_do_update(index_elements=list(KEYS), set_=changed))


def measurements(
    conn: Connection, *, node: str = "", stage: str = "", stages: Collection[str] | None = None
) -> list[Measurement]:
    """By node, stage, model_id and resolution."""
    query = sa.select(table)
    if node:
        query = query.where(table.c.node == node)
    if stage:
        query = query.where(table.c.stage == stage)
    if stages is not None:
        query = query.where(table.c.stage.in_(stages))
    rows = [Measurement(**row._mapping) for row in conn.execute(query)]
    return sorted(rows, key=lambda row: (row.node, row.stage, row.model_id, _size(row.resolution), row.model))


def _size(resolution: str) -> int:
    return _BY_SIZE.index(resolution) if resolution in _BY_SIZE else len(_BY_SIZE)
