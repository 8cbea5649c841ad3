"""Keeps rows, rules, events and sinks in SQL. All runs in the caller's transactions."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import Connection

from app.results.store.events import (
    RuleEventFilter,
    add_crossings,
    add_rule_event,
    count_by_rule,
    events_without_picture,
    forget_rule_events_before,
    get_rule_event,
    note_picture,
    rule_events_of,
    trim_rule_events,
)
from app.results.store.rows import add_rows, forget_rows_before, last_row, rows_of, trim_rows
from app.results.store.rules import get_rules, put_rule_state, put_rules, rule_state_of, rule_states_of
from app.results.store.sinks import (
    add_sink,
    all_sinks,
    backlog_of,
    change_sink,
    has_sinks,
    last_event_id,
    lease_sinks,
    put_progress,
    remove_sink,
    sink_trouble,
    sinks_of,
    uids_of_node_sinks,
)
from app.results.store.tables import crossings, rows, rule_events, rule_states, rules, sinks


def forget_producers(conn: Connection, uids: Collection[str]) -> None:
    """All that is kept of them."""
    for table in (rows, rules, rule_states, rule_events, crossings, sinks):
        conn.execute(sa.delete(table).where(table.c.uid.in_(uids)))
