"""Whose turn it is to change something that only one may change at a time, in SQL and in the caller's transactions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from app.kit.sql import metadata

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("subject", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("until", sa.String(32), nullable=False),
)


def take_turn(conn: Connection, subject: str, holder: str, *, at: str, until: str) -> bool:
    """May this holder act on it now, and nobody else? Until it gives the turn back, or so long; taken anew, longer."""
    make = sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert
    insert = make(turns).values(subject=subject, holder=holder, until=until)
    is_free = sa.or_(turns.c.until < at, turns.c.holder == holder)
    taken = insert.on_conflict_do_update(
        index_elements=["subject"], set_={"holder": holder, "until": until}, where=is_free
    )
    return conn.execute(taken.returning(turns.c.subject)).first() is not None


def end_turn(conn: Connection, subject: str, holder: str) -> None:
    conn.execute(sa.delete(turns).where(turns.c.subject == subject, turns.c.holder == holder))
