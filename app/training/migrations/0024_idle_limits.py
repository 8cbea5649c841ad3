"""Idle limits of training tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("training_tasks", sa.Column("max_idle_s", sa.Integer()))
    op.add_column("training_attempts", sa.Column("output_at", sa.String(32)))


def downgrade() -> None:
    op.drop_column("training_attempts", "output_at")
    op.drop_column("training_tasks", "max_idle_s")
