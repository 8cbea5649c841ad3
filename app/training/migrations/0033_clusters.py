"""On which of several clusters a task may run, and which one has an attempt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
TABLES = ("training_tasks", "training_attempts")


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("cluster", sa.String(32), nullable=False, server_default=""))


def downgrade() -> None:
    for table in TABLES:
        op.drop_column(table, "cluster")
