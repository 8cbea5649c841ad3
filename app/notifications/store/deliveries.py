"""Deliveries in SQL: the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql import outbox
from app.kit.sql.rows import count_rows, first, insert_new
from app.notifications.model import Delivery, DeliveryState, Outcome, Target
from app.notifications.store.tables import deliveries, targets
from app.notifications.store.targets import target_of


def add(conn: Connection, delivery: Delivery) -> bool:
    """Adds a message; returns False if it exists already."""
    return insert_new(conn, deliveries, {**vars(delivery), "state": delivery.state.value})


def lease_due(
    conn: Connection, at: str, *, until: str, limit: int, per_target: int, without: Sequence[str] = ()
) -> list[tuple[Delivery, Target]]:
    """Takes messages that are due, the oldest first, for this process alone; if the process dies, they become free
    again.

    Args:
        at: now, text in ISO 8601.
        until: when they become free again.
        limit: how many at most.
        per_target: how many of one target, so that a slow one does not delay others.
        without: targets whose messages are left.
    """
    c = deliveries.c
    order = (c.due_at, c.delivery_id)
    waiting = (
        sa.select(c.delivery_id, sa.func.row_number().over(partition_by=c.target_id, order_by=order).label("number"))
        .join(targets, targets.c.target_id == c.target_id)
        .where(c.state == DeliveryState.PENDING.value, c.due_at <= at, targets.c.is_enabled)
        .where(c.target_id.not_in(without))
        .subquery()
    )
    first = sa.select(waiting.c.delivery_id).where(waiting.c.number <= per_target)
    due = sa.select(c.delivery_id).where(c.delivery_id.in_(first), c.due_at <= at).order_by(*order).limit(limit)
    return _with_targets(conn, [row.delivery_id for row in outbox.lease_due(conn, deliveries, due, until=until)])


def note(conn: Connection, delivery: Delivery, outcome: Outcome, *, state: DeliveryState, due_at: str, at: str) -> None:
    """Note the result of a try; does nothing if the delivery has ended in the meantime.

    Args:
        state: after this try.
        due_at: when the next try is due, if there is one.
        at: now, text in ISO 8601.
    """
    values: dict[str, Any] = {
        "state": state.value,
        "tries": delivery.tries + 1,
        "status": outcome.status,
        "problem": outcome.problem,
        "due_at": due_at,
        "ended_at": None if state is DeliveryState.PENDING else at,
    }
    where = (deliveries.c.delivery_id == delivery.delivery_id, deliveries.c.state == DeliveryState.PENDING.value)
    conn.execute(sa.update(deliveries).where(*where).values(**values))


def give_up(conn: Connection, target_id: str, *, problem: str, at: str) -> None:
    """End all deliveries that wait for a target, as failed.

    Args:
        problem: why, a sentence for the user.
        at: now, text in ISO 8601.
    """
    where = (deliveries.c.target_id == target_id, deliveries.c.state == DeliveryState.PENDING.value)
    values = {"state": DeliveryState.FAILED.value, "problem": problem, "ended_at": at}
    conn.execute(sa.update(deliveries).where(*where).values(**values))


def send_again(conn: Connection, delivery_id: str, at: str) -> None:
    """Makes it due again under the same id, with the whole time limit."""
    values = {"state": DeliveryState.PENDING.value, "tries": 0, "due_at": at, "patience_from": at, "ended_at": None}
    conn.execute(sa.update(deliveries).where(deliveries.c.delivery_id == delivery_id).values(**values))


def get(conn: Connection, owner: str, delivery_id: str) -> Delivery | None:
    query = (
        sa.select(deliveries)
        .join(targets, targets.c.target_id == deliveries.c.target_id)
        .where(deliveries.c.delivery_id == delivery_id, targets.c.user_name == owner)
    )
    return first(conn, query, _delivery_of)


def newest(conn: Connection, owner: str, *, target_id: str = "", limit: int) -> list[Delivery]:
    """Returns deliveries of a user, the newest first.

    Args:
        target_id: of this target only; empty for all.
    """
    c = deliveries.c
    query = sa.select(deliveries).join(targets, targets.c.target_id == c.target_id).where(targets.c.user_name == owner)
    if target_id:
        query = query.where(c.target_id == target_id)
    ordered = query.order_by(c.created_at.desc(), c.delivery_id.desc()).limit(limit)
    return [_delivery_of(row) for row in conn.execute(ordered)]


def list_flooded(conn: Connection, most: int) -> list[str]:
    """Returns the targets for which more than this number wait."""
    c = deliveries.c
    query = sa.select(c.target_id).where(c.state == DeliveryState.PENDING.value).group_by(c.target_id)
    return list(conn.execute(query.having(sa.func.count() > most)).scalars())


def trim(conn: Connection, most: int) -> int:
    """Deletes ended messages of each target beyond the newest ones.

    Returns:
        How many were deleted.
    """
    c = deliveries.c
    number = sa.func.row_number().over(partition_by=c.target_id, order_by=(c.ended_at.desc(), c.delivery_id))
    ended = sa.select(c.delivery_id, number.label("number")).where(c.ended_at.is_not(None)).subquery()
    gone = sa.select(ended.c.delivery_id).where(ended.c.number > most)
    return conn.execute(sa.delete(deliveries).where(c.delivery_id.in_(gone))).rowcount


def count_since(conn: Connection, target_id: str, kind: str, since: str) -> int:
    """Counts the events of a kind that were recorded for a target.

    Args:
        kind: of the event, such as "job.completed".
        since: text in ISO 8601, included.
    """
    c = deliveries.c
    where = (c.target_id == target_id, c.event_kind == kind, c.created_at >= since)
    return count_rows(conn, deliveries, *where)


def forget_before(conn: Connection, at: str) -> int:
    """Deletes messages that ended before this time.

    Returns:
        How many were deleted.
    """
    return conn.execute(sa.delete(deliveries).where(deliveries.c.ended_at < at)).rowcount


def _with_targets(conn: Connection, ids: Sequence[str]) -> list[tuple[Delivery, Target]]:
    if not ids:
        return []
    by_id = {
        row.target_id: target_of(row)
        for row in conn.execute(
            sa.select(targets).where(
                targets.c.target_id.in_(sa.select(deliveries.c.target_id).where(deliveries.c.delivery_id.in_(ids)))
            )
        )
    }
    rows = conn.execute(
        sa.select(deliveries).where(deliveries.c.delivery_id.in_(ids)).order_by(deliveries.c.created_at)
    )
    return [(_delivery_of(row), by_id[row.target_id]) for row in rows]


def _delivery_of(row: Row[Any]) -> Delivery:
    values = dict(row._mapping)
    return Delivery(**{**values, "state": DeliveryState(values["state"])})
