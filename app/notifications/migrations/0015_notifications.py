"""Targets of notifications, and their messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0013"
TIME = sa.String(32)


def upgrade() -> None:
    op.create_table(
        "notification_targets",
        sa.Column("target_id", sa.String(32), nullable=False),
        sa.Column("user_name", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("label", sa.String(100), nullable=False),
        sa.Column("language", sa.String(16), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("target_id", name=op.f("pk_notification_targets")),
        sa.ForeignKeyConstraint(
            ["user_name"], ["users.name"], ondelete="CASCADE", name=op.f("fk_notification_targets_user_name")
        ),
    )
    op.create_index("ix_notification_targets_user_name", "notification_targets", ["user_name"])
    op.create_table(
        "notification_deliveries",
        sa.Column("delivery_id", sa.String(40), nullable=False),
        sa.Column("target_id", sa.String(32), nullable=False),
        sa.Column("event_kind", sa.String(32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("patience_from", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("status", sa.Integer()),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_notification_deliveries")),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["notification_targets.target_id"],
            ondelete="CASCADE",
            name=op.f("fk_notification_deliveries_target_id"),
        ),
    )
    op.create_index("ix_notification_deliveries_target_id", "notification_deliveries", ["target_id"])
    op.create_index("ix_notification_deliveries_state_due_at", "notification_deliveries", ["state", "due_at"])


def downgrade() -> None:
    op.drop_table("notification_deliveries")
    op.drop_table("notification_targets")
