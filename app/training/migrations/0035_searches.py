"""Sweeps of training tasks that grow, and the values that each task of a sweep has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.create_table(
        "training_sweeps",
        sa.Column("sweep_id", sa.String(100), primary_key=True),
        sa.Column("user_name", sa.String(32), nullable=False, index=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("is_admins", sa.Boolean(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False, index=True),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("remark", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.add_column("training_tasks", sa.Column("sweep_point", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("training_tasks", "sweep_point")
    op.drop_table("training_sweeps")
