"""The tables of homes."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import metadata

TIME = sa.String(32)

USER = sa.String(32)

door_accounts = sa.Table(
    "door_accounts",
    metadata,
    sa.Column("user_name", USER, primary_key=True),
    sa.Column("home", sa.Text, nullable=False),
    sa.Column("password_hash", sa.String(200), nullable=False),
    sa.Column("is_one_time", sa.Boolean, nullable=False),
    sa.Column("keys", sa.Text, nullable=False),
    sa.Column("is_enabled", sa.Boolean, nullable=False),
    sa.Column("quota_bytes", sa.BigInteger, nullable=False),
    sa.Column("quota_files", sa.BigInteger),
)

door_outbox = sa.Table(
    "door_outbox",
    metadata,
    sa.Column("entry_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("user_name", USER, nullable=False, index=True),
    sa.Column("event", sa.String(16), nullable=False),
    sa.Column("quota_bytes", sa.BigInteger),
    sa.Column("quota_files", sa.BigInteger),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("next_try_at", TIME, nullable=False),
    sa.Column("last_error", sa.Text),
    sa.Column("done_at", TIME),
    sa.Column("password_hash", sa.String(200)),
)

door_facts = sa.Table(
    "door_facts",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

job_folders = sa.Table(
    "job_folders",
    metadata,
    sa.Column("user_name", USER, primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("begun_at", TIME, nullable=False),
    sa.Column("ended_at", TIME, index=True),
    sa.Column("trashed_at", TIME),
    sa.Column("trash_name", sa.String(255)),
    sa.Column("purged_at", TIME),
    sa.Column("size_bytes", sa.BigInteger),
    sa.Column("problem", sa.Text),
)

door_bindings = sa.Table(
    "door_bindings",
    metadata,
    sa.Column("user_name", USER, primary_key=True),
    sa.Column("credential", sa.String(64), primary_key=True),
    sa.Column("token_id", sa.String(16), nullable=False),
)
