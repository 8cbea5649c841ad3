"""Conversions of what tasks left."""

from __future__ import annotations

from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql.upsert import insert_into, upsert
from app.training.model import (
    Conversion,
    State,
)
from app.training.store.changes import note_task
from app.training.store.tables import conversions, tasks, to_conversion


def put_conversion(conn: Connection, conversion: Conversion) -> None:
    """Add it, or say what became of it."""
    upsert(conn, conversions, asdict(conversion))
    note_task(conn, conversion.task_id)


def claim_conversion(conn: Connection, claim: Conversion, at: str) -> bool:
    """Add it, or take up again what is due by now. Until claim.next_try_at nobody else gets it then.

    False: another makes it, or it was made, or is not to be.
    """
    insert = insert_into(conn, conversions).values(**asdict(claim))
    taken = insert.on_conflict_do_update(
        index_elements=["task_id", "created_at"],
        set_={"next_try_at": claim.next_try_at},
        where=conversions.c.next_try_at <= at,
    )
    return conn.execute(taken.returning(conversions.c.task_id)).first() is not None


def conversions_due(conn: Connection, at: str) -> list[str]:
    """Tasks with one that is to be tried (again)."""
    query = sa.select(conversions.c.task_id).where(conversions.c.next_try_at <= at).distinct()
    return list(conn.execute(query).scalars())


def unconverted(conn: Connection, word: str, since: str) -> list[str]:
    """Tasks that succeeded since then, have the word in their spec, and no conversion that began with their end."""
    begun = sa.and_(conversions.c.task_id == tasks.c.task_id, conversions.c.created_at == tasks.c.ended_at)
    query = sa.select(tasks.c.task_id).where(
        tasks.c.state == State.SUCCEEDED.value,
        tasks.c.ended_at >= since,
        tasks.c.jobspec_yaml.contains(word, autoescape=True),
        ~sa.exists().where(begun),
    )
    return list(conn.execute(query.order_by(tasks.c.seq)).scalars())


def conversions_of(conn: Connection, task_id: str) -> list[Conversion]:
    """Oldest first."""
    query = sa.select(conversions).where(conversions.c.task_id == task_id).order_by(conversions.c.created_at)
    return [to_conversion(row) for row in conn.execute(query)]
