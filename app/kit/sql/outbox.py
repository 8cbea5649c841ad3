"""Rows of an outbox, each of which is due at a time.

What is due is leased: it is due again only when the lease ends, so nobody else tries it meanwhile, and what a process
dies with is tried by another. Who has tried notes how it went, and when the row is due next. Rows keep no order among
each other; an outbox whose order counts sends its oldest only (see docs/architecture.md).
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection


def lease_due(conn: Connection, table: sa.Table, due: sa.Select[Any], *, until: str) -> list[sa.Row[Any]]:
    """The rows that are due, for this process alone until a time.

    Args:
        conn: a transaction that writes.
        table: with a primary key of one column, and a column `due_at`.
        due: selects them, the primary key among their columns.
        until: text in ISO 8601.
    """
    if conn.dialect.name == "postgresql":
        due = due.with_for_update(of=table, skip_locked=True)
    rows = list(conn.execute(due))
    (key,) = table.primary_key
    if rows:
        ids = [row._mapping[key.name] for row in rows]
        conn.execute(sa.update(table).where(key.in_(ids)).values(due_at=until))
    return rows
