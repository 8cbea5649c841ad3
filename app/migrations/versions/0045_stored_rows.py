"""Rows and crossings are kept by when they were stored, as the clocks of nodes may be wrong; events say it already."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.kit.clock import now, to_text

revision = "0045"
down_revision = "0044"
TABLES = ("result_rows", "result_crossings")


def upgrade() -> None:
    for name in TABLES:
        op.add_column(name, sa.Column("stored_at", sa.String(32)))
        table = sa.table(name, sa.column("at"), sa.column("stored_at"))
        earlier = sa.case((table.c.at < (at := to_text(now())), table.c.at), else_=at)
        op.get_bind().execute(sa.update(table).values(stored_at=earlier))
    for name in (*TABLES, "result_events"):
        op.create_index(f"ix_{name}_stored_at", name, ["stored_at"])


def downgrade() -> None:
    for name in (*TABLES, "result_events"):
        op.drop_index(f"ix_{name}_stored_at", name)
    for name in TABLES:
        op.drop_column(name, "stored_at")
