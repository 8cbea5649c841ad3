"""Stages of the catalog: why one keeps older versions of its models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    with op.batch_alter_table("video_stages") as table:
        table.add_column(sa.Column("problem", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    with op.batch_alter_table("video_stages") as table:
        table.drop_column("problem")
