"""Events of rules, and the crossings of their lines. Runs in the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql.rows import within
from app.kit.text.plain_text import json_text
from app.results.model.event import Crossings, RuleCounts, RuleEvent
from app.results.store.tables import crossings, rule_events


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
    return replace(event, event_id=int(conn.execute(insert).scalar_one()), stored_at=stored_at)


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
    conditions = _conditions(rule_events, uid, chosen)
    if cursor is not None:
        conditions.append(c.event_id < cursor if newest_first else c.event_id > cursor)
    order = c.event_id.desc() if newest_first else c.event_id
    query = sa.select(rule_events).where(*conditions).order_by(order).limit(limit)
    return [_event_of(row) for row in conn.execute(query)]


def add_crossings(conn: Connection, uid: str, crossed: Collection[Crossings], stored_at: str) -> None:
    """Store what crossed lines.

    Args:
        uid: of the producer.
        crossed: each once.
        stored_at: by the web's clock, text in ISO 8601.
    """
    if crossed:
        conn.execute(sa.insert(crossings), [{"uid": uid, "stored_at": stored_at, **vars(one)} for one in crossed])


def count_by_rule(conn: Connection, uid: str, chosen: RuleEventFilter) -> dict[str, RuleCounts]:
    """The counts of each rule that has any."""
    rule, c = rule_events.c.rule, crossings.c
    of_events = sa.select(rule, sa.func.count()).where(*_conditions(rule_events, uid, chosen)).group_by(rule)
    counts = {name: RuleCounts(events) for name, events in conn.execute(of_events)}
    sums = (sa.func.sum(c.to_left), sa.func.sum(c.to_right))
    of_lines = sa.select(c.rule, *sums).where(*_conditions(crossings, uid, chosen)).group_by(c.rule)
    for name, left, right in conn.execute(of_lines):
        counts[name] = replace(counts.get(name, RuleCounts()), left=int(left), right=int(right))
    return counts


def _conditions(table: sa.Table, uid: str, chosen: RuleEventFilter) -> list[sa.ColumnElement[bool]]:
    of_rule = [table.c.rule == chosen.rule] if chosen.rule else []
    return [table.c.uid == uid, *within(table.c.at, chosen.since, chosen.until), *of_rule]


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
    """Of all producers, at most so many, by when they were stored. Returns uid and event_id of each."""
    oldest = sa.select(rule_events.c.event_id).where(rule_events.c.stored_at < at).limit(limit)
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
    origin = {"node": row.node, "source": row.source, "stored_at": row.stored_at}
    return RuleEvent(
        row.rule, row.n_loop, row.at, json.loads(row.objects), row.zone, row.event_id, row.picture_at, **origin
    )
