"""Pending changes for the SFTP backend, in order."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from app.homes.store.tables import door_outbox


@dataclass(frozen=True)
class PendingChange:
    """A change of an account that the SFTP backend has not received yet."""

    entry_id: int
    user: str
    event: str
    quota_bytes: int | None
    quota_files: int | None
    created_at: str
    tries: int
    next_try_at: str
    last_error: str | None
    password_hash: str | None
    """Of a new user's one-time password."""


def add_pending(
    conn: Connection,
    user: str,
    event: str,
    quota_bytes: int | None,
    at: str,
    *,
    quota_files: int | None = None,
    password_hash: str | None = None,
) -> int:
    """Records a change for the SFTP server.

    Args:
        quota_bytes: None: the installation's; 0: no limit.
        quota_files: None: the installation's; 0: no limit.
        at: text in ISO 8601; it is due at once.
        password_hash: of a one-time password; None: the account keeps its own.

    Returns:
        The entry's number.
    """
    added = conn.execute(
        sa.insert(door_outbox).values(
            user_name=user,
            event=event,
            quota_bytes=quota_bytes,
            quota_files=quota_files,
            created_at=at,
            tries=0,
            next_try_at=at,
            password_hash=password_hash,
        )
    )
    return int(added.inserted_primary_key[0])  # type: ignore[index]  # a row that was inserted has one


def pending(conn: Connection, *, user: str | None = None, limit: int = 1000) -> list[PendingChange]:
    """Oldest first."""
    statement = sa.select(door_outbox).where(door_outbox.c.done_at.is_(None)).order_by(door_outbox.c.entry_id)
    if user is not None:
        statement = statement.where(door_outbox.c.user_name == user)
    columns = PendingChange.__dataclass_fields__
    return [
        PendingChange(**{name: getattr(row, "user_name" if name == "user" else name) for name in columns})
        for row in conn.execute(statement.limit(limit))
    ]


def users_due(conn: Connection, at: str) -> list[str]:
    """Users whose oldest change is due: a later one of the same user waits for it."""
    oldest = (
        sa.select(sa.func.min(door_outbox.c.entry_id))
        .where(door_outbox.c.done_at.is_(None))
        .group_by(door_outbox.c.user_name)
    )
    statement = sa.select(door_outbox.c.user_name).where(
        door_outbox.c.entry_id.in_(oldest), door_outbox.c.next_try_at <= at
    )
    return [row.user_name for row in conn.execute(statement.order_by(door_outbox.c.entry_id))]


def has_entry(conn: Connection, entry_id: int) -> bool:
    return conn.execute(sa.select(door_outbox.c.entry_id).where(door_outbox.c.entry_id == entry_id)).first() is not None


def complete_pending(conn: Connection, entry: PendingChange, at: str) -> None:
    """Also deletes those done before it: the last one of each user is enough."""
    theirs = door_outbox.c.user_name == entry.user
    conn.execute(sa.delete(door_outbox).where(theirs, door_outbox.c.done_at.is_not(None)))
    conn.execute(
        sa.update(door_outbox)
        .where(door_outbox.c.entry_id == entry.entry_id)
        .values(done_at=at, last_error=None, password_hash=None)
    )


def pending_failed(conn: Connection, entry: PendingChange, *, next_try_at: str, error: str) -> None:
    """Records that the SFTP server has not accepted a change.

    Args:
        next_try_at: text in ISO 8601.
        error: a sentence.
    """
    conn.execute(
        sa.update(door_outbox)
        .where(door_outbox.c.entry_id == entry.entry_id)
        .values(tries=entry.tries + 1, next_try_at=next_try_at, last_error=error)
    )
