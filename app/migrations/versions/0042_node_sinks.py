"""Nodes deliver to sinks, too, and report how far they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.add_column("result_sinks", sa.Column("sent_by", sa.String(16), nullable=False, server_default="server"))
    op.add_column("result_sinks", sa.Column("test_id", sa.String(32), nullable=False, server_default=""))
    op.add_column("result_sinks", sa.Column("by_node", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    for name in ("sent_by", "test_id", "by_node"):
        op.drop_column("result_sinks", name)
