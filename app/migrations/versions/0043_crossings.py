"""Crossings of lines are counted apart from events, also during a cool-down; those in the events so far are kept."""

from __future__ import annotations

import json
from collections import Counter

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
AT_ONCE = 1000


def upgrade() -> None:
    crossings = op.create_table(
        "result_crossings",
        sa.Column("crossings_id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("uid", sa.String(64), nullable=False, index=True),
        sa.Column("n_loop", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("at", sa.String(32), nullable=False, index=True),
        sa.Column("to_left", sa.Integer(), nullable=False),
        sa.Column("to_right", sa.Integer(), nullable=False),
    )
    events = sa.table("result_events", *map(sa.column, ("event_id", "uid", "n_loop", "rule", "at", "objects")))
    last = 0
    while True:
        query = sa.select(events).where(events.c.event_id > last).order_by(events.c.event_id).limit(AT_ONCE)
        some_events = list(op.get_bind().execute(query))
        if not some_events:
            return
        last = some_events[-1].event_id
        values = []
        for event in some_events:
            ways = Counter(one.get("direction") for one in json.loads(event.objects))
            if ways["left"] or ways["right"]:
                facts = {"uid": event.uid, "n_loop": event.n_loop, "rule": event.rule, "at": event.at}
                values.append({**facts, "to_left": ways["left"], "to_right": ways["right"]})
        if values:
            op.bulk_insert(crossings, values)


def downgrade() -> None:
    op.drop_table("result_crossings")
