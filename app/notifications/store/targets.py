"""Targets in SQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql.rows import count_rows, first, from_row, row_of
from app.notifications.model import EventKind, Kind, Target
from app.notifications.store.tables import targets


def add(conn: Connection, target: Target) -> None:
    row = row_of(targets, target, user_name=target.owner, kind=target.kind.value, events=" ".join(target.events))
    conn.execute(sa.insert(targets).values(row))


def get(conn: Connection, owner: str, target_id: str) -> Target | None:
    where = (targets.c.target_id == target_id, targets.c.user_name == owner)
    return first(conn, sa.select(targets).where(*where), target_of)


def of(conn: Connection, owner: str) -> list[Target]:
    """Returns a user's targets, the oldest first."""
    ordered = sa.select(targets).where(targets.c.user_name == owner).order_by(targets.c.created_at, targets.c.target_id)
    return [target_of(row) for row in conn.execute(ordered)]


def count(conn: Connection, owner: str) -> int:
    return count_rows(conn, targets, targets.c.user_name == owner)


def list_interested(conn: Connection, owner: str, kind: str, subject: str) -> list[str]:
    """Returns the ids of a user's targets that are notified of an event. Reads nothing that is encrypted.

    Args:
        kind: of the event, such as "job.completed".
        subject: id of the resource; a target may be for one alone.
    """
    c = targets.c
    rows = conn.execute(
        sa.select(c.target_id, c.events).where(c.user_name == owner, c.is_enabled, c.subject.in_(["", subject]))
    )
    return [row.target_id for row in rows if not row.events or kind in row.events.split()]


def change(conn: Connection, target_id: str, **values: Any) -> None:
    """Changes a target.

    Args:
        values: events, label, is_enabled, problem.
    """
    if "events" in values:
        values["events"] = " ".join(values["events"])
    conn.execute(sa.update(targets).where(targets.c.target_id == target_id).values(**values))


def delete(conn: Connection, owner: str, target_id: str) -> bool:
    """Deletes a target and its deliveries; returns False if the user has no such target."""
    where = (targets.c.target_id == target_id, targets.c.user_name == owner)
    return conn.execute(sa.delete(targets).where(*where)).rowcount == 1


def target_of(row: Row[Any]) -> Target:
    return from_row(
        Target,
        row,
        owner=row.user_name,
        kind=Kind(row.kind),
        events=tuple(map(EventKind, row.events.split())),
        is_enabled=bool(row.is_enabled),
    )
