"""Priorities of training tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("training_tasks", sa.Column("priority", sa.String(8), nullable=False, server_default="normal"))


def downgrade() -> None:
    op.drop_column("training_tasks", "priority")
