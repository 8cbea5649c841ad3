"""Events of rules. Runs in the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql.rows import within
from app.kit.text.plain_text import json_text
from app.results.model.event import RuleCounts, RuleEvent
from app.results.model.rule import Direction
from app.results.store.tables import rule_events


@dataclass(frozen=True)
class RuleEventFilter:
    """Which events. None and "" filter nothing."""

    rule: str = ""
    since: str | None = None
    """ISO 8601 in UTC, included."""
    until: str | None = None
    """Excluded."""


def add_rule_event(conn: Connection, uid: str, event: RuleEvent, stored_at: str) -> RuleEvent:
    """Store an event of a rule.

    Args:
        stored_at: by the web's clock, text in ISO 8601.

    Returns:
        The event with its number.
    """
    values = {
        "uid": uid,
        "rule": event.rule,
        "zone": event.zone,
        "n_loop": event.n_loop,
        "at": event.at,
        "stored_at": stored_at,
        "objects": json_text(list(event.objects)),
        "node": event.node,
        "source": event.source,
    }
    insert = sa.insert(rule_events).values(**values).returning(rule_events.c.event_id)
    return replace(event, event_id=int(conn.execute(insert).scalar_one()))


def rule_events_of(
    conn: Connection,
    uid: str,
    chosen: RuleEventFilter,
    *,
    cursor: int | None = None,
    newest_first: bool = True,
    limit: int,
) -> list[RuleEvent]:
    """In the order in which they were stored.

    Args:
        cursor: event_id of the last one seen.
    """
    c = rule_events.c
    conditions = _conditions(uid, chosen)
    if cursor is not None:
        conditions.append(c.event_id < cursor if newest_first else c.event_id > cursor)
    order = c.event_id.desc() if newest_first else c.event_id
    query = sa.select(rule_events).where(*conditions).order_by(order).limit(limit)
    return [_event_of(row) for row in conn.execute(query)]


def count_rule_events(conn: Connection, uid: str, chosen: RuleEventFilter) -> dict[str, RuleCounts]:
    """The counts of each rule that has events."""
    rule = rule_events.c.rule
    crossed = map(_count_crossed, (Direction.LEFT, Direction.RIGHT))
    query = sa.select(rule, sa.func.count(), *crossed).where(*_conditions(uid, chosen)).group_by(rule)
    return {name: RuleCounts(events, int(left), int(right)) for name, events, left, right in conn.execute(query)}


def _count_crossed(direction: Direction) -> sa.ColumnElement[int]:
    """Of the objects in stored JSON, without reading it: in a label, the quotes of this text would be escaped."""
    text, objects = json_text({"direction": direction})[1:-1], rule_events.c.objects
    whole, without = (sa.func.length(one, type_=sa.Integer) for one in (objects, sa.func.replace(objects, text, "")))
    return sa.func.sum((whole - without) // len(text))


def _conditions(uid: str, chosen: RuleEventFilter) -> list[sa.ColumnElement[bool]]:
    c = rule_events.c
    of_rule = [c.rule == chosen.rule] if chosen.rule else []
    return [c.uid == uid, *within(c.at, chosen.since, chosen.until), *of_rule]


def get_rule_event(conn: Connection, uid: str, event_id: int) -> RuleEvent | None:
    row = conn.execute(
        sa.select(rule_events).where(rule_events.c.uid == uid, rule_events.c.event_id == event_id)
    ).first()
    return _event_of(row) if row else None


def events_without_picture(
    conn: Connection, uid: str, *, node: str, source: str, stored_since: str, since: str, limit: int
) -> list[RuleEvent]:
    """Events of an origin that still wait for a picture, the newest first.

    Args:
        stored_since: by the web's clock.
        since: by the node's clock.
    """
    c = rule_events.c
    origin = (c.uid == uid, c.node == node, c.source == source)
    conditions = (*origin, c.picture_at.is_(None), c.stored_at >= stored_since, c.at >= since)
    query = sa.select(rule_events).where(*conditions).order_by(c.event_id.desc()).limit(limit)
    return [_event_of(row) for row in conn.execute(query)]


def note_picture(conn: Connection, event_ids: Collection[int], at: str) -> None:
    conn.execute(sa.update(rule_events).where(rule_events.c.event_id.in_(event_ids)).values(picture_at=at))


def forget_rule_events_before(conn: Connection, at: str, *, limit: int) -> list[tuple[str, int]]:
    """Of all producers, at most so many. Returns uid and event_id of each."""
    oldest = sa.select(rule_events.c.event_id).where(rule_events.c.at < at).limit(limit)
    return _forget(conn, rule_events.c.event_id.in_(oldest))


def trim_rule_events(conn: Connection, uid: str, most: int) -> list[tuple[str, int]]:
    """Keeps the newest of a producer. Returns uid and event_id of each that went."""
    c = rule_events.c
    newest_gone = sa.select(c.event_id).where(c.uid == uid).order_by(c.event_id.desc()).offset(most).limit(1)
    event_id = conn.execute(newest_gone).scalar()
    return _forget(conn, sa.and_(c.uid == uid, c.event_id <= event_id)) if event_id is not None else []


def _forget(conn: Connection, condition: sa.ColumnElement[bool]) -> list[tuple[str, int]]:
    c = rule_events.c
    rows = conn.execute(sa.delete(rule_events).where(condition).returning(c.uid, c.event_id))
    return [(row.uid, row.event_id) for row in rows]


def _event_of(row: Row[Any]) -> RuleEvent:
    origin = {"node": row.node, "source": row.source}
    return RuleEvent(
        row.rule, row.n_loop, row.at, json.loads(row.objects), row.zone, row.event_id, row.picture_at, **origin
    )
