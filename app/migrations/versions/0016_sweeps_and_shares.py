"""Sweeps with their jobs, and links that show a job to others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
TIME = sa.String(32)


def upgrade() -> None:
    op.create_table(
        "sweeps",
        sa.Column("sweep_id", sa.String(32), nullable=False),
        sa.Column("user_name", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("sweep_id", name=op.f("pk_sweeps")),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], ondelete="CASCADE", name=op.f("fk_sweeps_user_name")),
    )
    op.create_index("ix_sweeps_user_name", "sweeps", ["user_name"])
    op.create_table(
        "sweep_entries",
        sa.Column("sweep_id", sa.String(32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("model_name", sa.String(200), nullable=False),
        sa.Column("model_key", sa.String(512), nullable=False),
        sa.Column("quant_key", sa.String(512), nullable=False),
        sa.Column("variant", sa.String(200), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("result", sa.Text()),
        sa.PrimaryKeyConstraint("sweep_id", "position", name=op.f("pk_sweep_entries")),
        sa.UniqueConstraint("job_id", name=op.f("uq_sweep_entries_job_id")),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["sweeps.sweep_id"], ondelete="CASCADE", name=op.f("fk_sweep_entries_sweep_id")
        ),
    )
    op.create_index("ix_sweep_entries_state", "sweep_entries", ["state"])
    op.create_table(
        "shares",
        sa.Column("share_id", sa.String(32), nullable=False),
        sa.Column("user_name", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("label", sa.String(100), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("revoked_at", TIME),
        sa.Column("last_used_at", TIME),
        sa.PrimaryKeyConstraint("share_id", name=op.f("pk_shares")),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], ondelete="CASCADE", name=op.f("fk_shares_user_name")),
    )
    op.create_index("ix_shares_user_name", "shares", ["user_name"])
    op.create_index("ix_shares_job_id", "shares", ["job_id"])


def downgrade() -> None:
    op.drop_table("shares")
    op.drop_table("sweep_entries")
    op.drop_table("sweeps")
