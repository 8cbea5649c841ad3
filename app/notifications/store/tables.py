"""The tables of notifications. Addresses may hold a key of their own, so they are encrypted like secrets."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import Sealed, metadata

TIME = sa.String(32)

targets = sa.Table(
    "notification_targets",
    metadata,
    sa.Column("target_id", sa.String(32), primary_key=True),
    sa.Column("user_name", sa.String(32), sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("address", Sealed(), nullable=False),
    sa.Column("secret", Sealed(), nullable=False),
    sa.Column("events", sa.Text, nullable=False),
    sa.Column("subject", sa.String(200), nullable=False),
    sa.Column("label", sa.String(100), nullable=False),
    sa.Column("language", sa.String(16), nullable=False),
    sa.Column("is_enabled", sa.Boolean, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
)
deliveries = sa.Table(
    "notification_deliveries",
    metadata,
    sa.Column("delivery_id", sa.String(40), primary_key=True),
    sa.Column(
        "target_id",
        sa.String(32),
        sa.ForeignKey("notification_targets.target_id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    sa.Column("event_kind", sa.String(32), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("due_at", TIME, nullable=False),
    sa.Column("patience_from", TIME, nullable=False),
    sa.Column("ended_at", TIME),
    sa.Column("status", sa.Integer),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Index("ix_notification_deliveries_state_due_at", "state", "due_at"),
)
