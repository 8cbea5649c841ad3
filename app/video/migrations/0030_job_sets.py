"""Video jobs on every video of the nodes that labels select."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
UNENDED = sa.text("set_id <> '' AND ended_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "video_job_sets",
        sa.Column("set_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("video_id", sa.String(64), nullable=False),
        sa.Column("submission", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("set_id"),
    )
    op.create_index("ix_video_job_sets_owner", "video_job_sets", ["owner"])
    op.add_column("video_jobs", sa.Column("set_id", sa.String(36), nullable=False, server_default=""))
    op.create_index("ix_video_jobs_set_id", "video_jobs", ["set_id"])
    op.create_index(
        "uq_video_jobs_set_id_node_video_id",
        "video_jobs",
        ["set_id", "node", "video_id"],
        unique=True,
        sqlite_where=UNENDED,
        postgresql_where=UNENDED,
    )


def downgrade() -> None:
    op.drop_index("uq_video_jobs_set_id_node_video_id", "video_jobs")
    op.drop_index("ix_video_jobs_set_id", "video_jobs")
    op.drop_column("video_jobs", "set_id")
    op.drop_index("ix_video_job_sets_owner", "video_job_sets")
    op.drop_table("video_job_sets")
