"""Environments of training tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.create_table(
        "training_environments",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.Column("updated_by", sa.String(32), nullable=False),
    )
    op.add_column("training_tasks", sa.Column("environment", sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("training_tasks", "environment")
    op.drop_table("training_environments")
