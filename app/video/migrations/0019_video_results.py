"""The rows of video jobs are stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "video_results",
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("n_loop", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("row", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("uid", "n_loop"),
    )
    op.create_index("ix_video_results_at", "video_results", ["at"])


def downgrade() -> None:
    op.drop_table("video_results")
