"""The tables of results."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import Sealed, metadata

TIME = sa.String(32)
UID = sa.String(64)
"""Of what makes them."""

rows = sa.Table(
    "result_rows",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("n_loop", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", TIME, nullable=False, index=True),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("row", sa.Text, nullable=False),
    sa.Column("stored_at", TIME, index=True),
)
"""See FrameRecord. labels: the classes in it, a line each. stored_at: null only in what an older program stored while a
newer one had the database."""
rule_events = sa.Table(
    "result_events",
    metadata,
    sa.Column("event_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uid", UID, nullable=False, index=True),
    sa.Column("rule", sa.String(64), nullable=False),
    sa.Column("zone", sa.String(64), nullable=False),
    sa.Column("n_loop", sa.Integer, nullable=False),
    sa.Column("at", TIME, nullable=False, index=True),
    sa.Column("stored_at", TIME, nullable=False, index=True),
    sa.Column("picture_at", TIME),
    sa.Column("objects", sa.Text, nullable=False),
    sa.Column("node", sa.String(63), nullable=False, server_default=""),
    sa.Column("source", sa.String(63), nullable=False, server_default=""),
    sqlite_autoincrement=True,
)
"""See RuleEvent. No event_id is given out twice: receivers tell events by it."""
crossings = sa.Table(
    "result_crossings",
    metadata,
    sa.Column("crossings_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uid", UID, nullable=False, index=True),
    sa.Column("n_loop", sa.Integer, nullable=False),
    sa.Column("rule", sa.String(64), nullable=False),
    sa.Column("at", TIME, nullable=False, index=True),
    sa.Column("to_left", sa.Integer, nullable=False),
    sa.Column("to_right", sa.Integer, nullable=False),
    sa.Column("stored_at", TIME, index=True),
)
"""See Crossings. stored_at: as that of rows."""
rules = sa.Table(
    "result_rules",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("rule_set", sa.Text, nullable=False),
)
"""See RuleSet."""
rule_states = sa.Table(
    "result_rule_states",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("node", sa.String(63), primary_key=True),
    sa.Column("source", sa.String(63), primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
)
"""See EvaluationState: one for each origin of rows. node, source: as in the rows; empty where there is only one."""
sinks = sa.Table(
    "result_sinks",
    metadata,
    sa.Column("sink_id", sa.String(32), primary_key=True),
    sa.Column("uid", UID, nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("content", sa.String(16), nullable=False),
    sa.Column("address", Sealed(), nullable=False),
    sa.Column("secret", Sealed(), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("cursor", sa.Integer, nullable=False),
    sa.Column("delivered", sa.Integer, nullable=False),
    sa.Column("delivered_at", TIME),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("due_at", TIME, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("skipped", sa.Integer, nullable=False, server_default="0"),
    sa.Column("skip_reason", sa.Text, nullable=False, server_default=""),
    sa.Column("sent_by", sa.String(16), nullable=False, server_default="server"),
    sa.Column("test_id", sa.String(32), nullable=False, server_default=""),
    sa.Column("by_node", sa.Text, nullable=False, server_default="{}"),
)
"""See Sink. An address may hold a password."""
