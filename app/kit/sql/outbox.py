"""Rows of an outbox, each due at a time.

Due rows are leased: they are due again only when the lease ends, so no other process tries them meanwhile, and if a
process dies, another retries. After an attempt, its result and the next due time are recorded. Rows are not ordered
among each other; an outbox whose order matters sends only its oldest (see docs/architecture.md).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection


def lease_due(conn: Connection, table: sa.Table, due: sa.Select[Any], *, until: str) -> list[sa.Row[Any]]:
    """Returns the due rows, reserved for this process until a time.

    Args:
        conn: a writing transaction.
        table: with a primary key of one column, and a column `due_at`.
        due: selects them, the primary key among their columns.
        until: the end of the lease, in ISO 8601.
    """
    if conn.dialect.name == "postgresql":
        due = due.with_for_update(of=table, skip_locked=True)
    rows = list(conn.execute(due))
    (key,) = table.primary_key
    if rows:
        ids = [row._mapping[key.name] for row in rows]
        conn.execute(sa.update(table).where(key.in_(ids)).values(due_at=until))
    return rows
