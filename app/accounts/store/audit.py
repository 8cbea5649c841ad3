"""Who did what."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import Connection

from app.accounts.model import AuditEntry
from app.accounts.store.tables import audit


def note(conn: Connection, entry: AuditEntry) -> None:
    conn.execute(
        sa.insert(audit).values(
            at=entry.at,
            actor=entry.actor,
            action=entry.action,
            subject=entry.subject,
            detail=json.dumps(entry.detail, ensure_ascii=False),
        )
    )


def entries(
    conn: Connection, *, limit: int, before: int | None = None, subject: str | None = None, actor: str | None = None
) -> list[AuditEntry]:
    """Newest first.

    Args:
        before: the number of an entry.
    """
    statement = sa.select(audit).order_by(audit.c.entry_id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(audit.c.entry_id < before)
    if subject is not None:
        statement = statement.where(audit.c.subject == subject)
    if actor is not None:
        statement = statement.where(audit.c.actor == actor)
    return [
        AuditEntry(row.at, row.actor, row.action, row.subject, json.loads(row.detail), row.entry_id)
        for row in conn.execute(statement)
    ]
