"""The tables of accounts."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import metadata

TIME = sa.String(32)

USER = sa.String(32)

users = sa.Table(
    "users",
    metadata,
    sa.Column("name", USER, primary_key=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("is_enabled", sa.Boolean, nullable=False),
    sa.Column("quota_bytes", sa.BigInteger),
    sa.Column("quota_files", sa.BigInteger),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("group_names", sa.Text, nullable=False, server_default=""),
)
"""group_names: with blanks between them."""

api_tokens = sa.Table(
    "api_tokens",
    metadata,
    sa.Column("token_id", sa.String(16), primary_key=True),
    sa.Column("user_name", USER, sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("label", sa.String(100), nullable=False),
    sa.Column("secret_hash", sa.String(64), nullable=False),
    sa.Column("scopes", sa.String(100), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("expires_at", TIME),
    sa.Column("last_used_at", TIME),
    sa.Column("revoked_at", TIME),
    sa.Column("made_by", sa.String(16), index=True),
)

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("session_hash", sa.String(64), primary_key=True),
    sa.Column(
        "token_id", sa.String(16), sa.ForeignKey("api_tokens.token_id", ondelete="CASCADE"), nullable=False, index=True
    ),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("expires_at", TIME, nullable=False, index=True),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("entry_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("actor", USER, nullable=False, index=True),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(300), nullable=False, index=True),
    sa.Column("detail", sa.Text, nullable=False),
)

installation = sa.Table(
    "installation",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
