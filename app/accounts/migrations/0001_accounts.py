"""Users, their tokens and sessions, and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
TIME = sa.String(32)
USER = sa.String(32)


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("name", USER, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )
    op.create_table(
        "api_tokens",
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("user_name", USER, nullable=False),
        sa.Column("label", sa.String(100), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.String(100), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("last_used_at", TIME, nullable=True),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("token_id", name="pk_api_tokens"),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"], name="fk_api_tokens_user_name", ondelete="CASCADE"),
    )
    op.create_index("ix_api_tokens_user_name", "api_tokens", ["user_name"])
    op.create_table(
        "sessions",
        sa.Column("session_hash", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("session_hash", name="pk_sessions"),
        sa.ForeignKeyConstraint(["token_id"], ["api_tokens.token_id"], name="fk_sessions_token_id", ondelete="CASCADE"),
    )
    op.create_index("ix_sessions_token_id", "sessions", ["token_id"])
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])
    op.create_table(
        "audit",
        sa.Column("entry_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("actor", USER, nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", name="pk_audit"),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    op.create_index("ix_audit_actor", "audit", ["actor"])


def downgrade() -> None:
    for table in ("audit", "sessions", "api_tokens", "users"):
        op.drop_table(table)
