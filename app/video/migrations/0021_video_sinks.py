"""Sinks for the rows and events of video jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.create_table(
        "video_sinks",
        sa.Column("sink_id", sa.String(32), nullable=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("content", sa.String(16), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("cursor", sa.Integer(), nullable=False),
        sa.Column("delivered", sa.Integer(), nullable=False),
        sa.Column("delivered_at", sa.String(32)),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.String(32), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sink_id"),
    )
    op.create_index("ix_video_sinks_uid", "video_sinks", ["uid"])


def downgrade() -> None:
    op.drop_table("video_sinks")
