"""Rules of video jobs, and the events that they make."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "video_rules",
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("rule_set", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
    )
    op.create_table(
        "video_rule_events",
        sa.Column("event_id", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("zone", sa.String(64), nullable=False),
        sa.Column("n_loop", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("stored_at", sa.String(32), nullable=False),
        sa.Column("picture_at", sa.String(32)),
        sa.Column("objects", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_video_rule_events_uid", "video_rule_events", ["uid"])
    op.create_index("ix_video_rule_events_at", "video_rule_events", ["at"])


def downgrade() -> None:
    op.drop_table("video_rule_events")
    op.drop_table("video_rules")
