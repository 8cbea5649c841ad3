"""Sinks of producers. Runs in the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql import outbox
from app.kit.sql.rows import from_row, row_of
from app.results.model.sink import MOST_COUNTED, SentBy, Sink, SinkContent, SinkKind, SinkProgress
from app.results.store.tables import rows, rule_events, sinks

_IS_OF_SERVER = sinks.c.sent_by == SentBy.SERVER.value


def add_sink(conn: Connection, sink: Sink) -> None:
    enums = {name: getattr(sink, name).value for name in ("kind", "content", "sent_by")}
    conn.execute(sa.insert(sinks).values(**row_of(sinks, sink, **enums, by_node="{}")))


def sinks_of(conn: Connection, uid: str) -> list[Sink]:
    """Oldest first, with what nodes have reported."""
    query = sa.select(sinks).where(sinks.c.uid == uid).order_by(sinks.c.created_at, sinks.c.sink_id)
    return [_sink_of(row).with_progress for row in conn.execute(query)]


def uids_of_node_sinks(conn: Connection) -> set[str]:
    """Returns the producers with sinks that nodes deliver to."""
    return set(conn.execute(sa.select(sinks.c.uid).where(~_IS_OF_SERVER).distinct()).scalars())


def put_progress(conn: Connection, node: str, reports: Mapping[str, SinkProgress]) -> None:
    """Stores what a node has reported, by the ids of sinks."""
    query = sa.select(sinks).where(sinks.c.sink_id.in_(reports), ~_IS_OF_SERVER).order_by(sinks.c.sink_id)
    for sink in [_sink_of(row) for row in conn.execute(query.with_for_update())]:
        if sink.by_node.get(node) != reports[sink.sink_id]:
            by_node = {**sink.by_node, node: reports[sink.sink_id]}
            text = json.dumps({name: one.to_json() for name, one in by_node.items()})
            change_sink(conn, sink.sink_id, by_node=text)


def all_sinks(conn: Connection) -> list[Sink]:
    """Of all producers, by their ids."""
    return [_sink_of(row).with_progress for row in conn.execute(sa.select(sinks).order_by(sinks.c.sink_id))]


def has_sinks(conn: Connection, uid: str) -> bool:
    """Whether there are some that this server delivers to."""
    query = sa.select(sinks.c.sink_id).where(sinks.c.uid == uid, _IS_OF_SERVER).limit(1)
    return conn.execute(query).first() is not None


def sink_trouble(conn: Connection, uid: str) -> str:
    """What is wrong with the producer's sinks that are stuck, a line each; empty: none is."""
    return "\n".join(filter(None, (sink.trouble for sink in sinks_of(conn, uid))))


def remove_sink(conn: Connection, uid: str, sink_id: str) -> bool:
    """False: there is none."""
    return conn.execute(sa.delete(sinks).where(sinks.c.uid == uid, sinks.c.sink_id == sink_id)).rowcount == 1


def lease_sinks(
    conn: Connection, at: str, *, until: str, latest: str, limit: int, without: Collection[str] = ()
) -> list[Sink]:
    """Those that are due and have something to deliver, for this process alone until a time; first those that have been
    due longest.

    Args:
        at: now, text in ISO 8601.
        until: how long they are this process's.
        latest: those that are due after this time are due now.
        without: not these.
    """
    row = sa.select(rows.c.n_loop).where(rows.c.uid == sinks.c.uid, rows.c.n_loop > sinks.c.cursor)
    event = sa.select(rule_events.c.event_id).where(
        rule_events.c.uid == sinks.c.uid, rule_events.c.event_id > sinks.c.cursor
    )
    is_of_rows = sinks.c.content == SinkContent.ROWS.value
    is_behind = sa.or_(sa.and_(is_of_rows, row.exists()), sa.and_(~is_of_rows, event.exists()))
    is_due = sa.or_(sinks.c.due_at <= at, sinks.c.due_at > latest)
    due = sa.select(sinks).where(_IS_OF_SERVER, is_due, sinks.c.sink_id.not_in(without), is_behind)
    due = due.order_by(sinks.c.due_at).limit(limit)
    return [_sink_of(row) for row in outbox.lease_due(conn, sinks, due, until=until)]


def change_sink(conn: Connection, sink_id: str, **values: Any) -> None:
    conn.execute(sa.update(sinks).where(sinks.c.sink_id == sink_id).values(**values))


def last_event_id(conn: Connection, uid: str) -> int:
    """Of the producer's newest event; 0: there is none."""
    return int(conn.scalar(sa.select(sa.func.max(rule_events.c.event_id)).where(rule_events.c.uid == uid)) or 0)


def backlog_of(conn: Connection, sink: Sink) -> int:
    """How many wait, at most MOST_COUNTED."""
    if sink.sent_by is SentBy.NODE:
        return min(sink.queued, MOST_COUNTED)
    table, number = (rows, rows.c.n_loop) if sink.content is SinkContent.ROWS else (rule_events, rule_events.c.event_id)
    waiting = sa.select(number).where(table.c.uid == sink.uid, number > sink.cursor).limit(MOST_COUNTED).subquery()
    return int(conn.scalar(sa.select(sa.func.count()).select_from(waiting)) or 0)


def _sink_of(row: Row[Any]) -> Sink:
    enums = {"kind": SinkKind(row.kind), "content": SinkContent(row.content), "sent_by": SentBy(row.sent_by)}
    by_node = {name: SinkProgress.from_json(one) for name, one in json.loads(row.by_node).items()}
    return from_row(Sink, row, **enums, by_node=by_node)
