"""SFTP accounts, pending changes for the SFTP server, and the folders of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
TIME = sa.String(32)
USER = sa.String(32)


def upgrade() -> None:
    op.create_table(
        "door_accounts",
        sa.Column("user_name", USER, nullable=False),
        sa.Column("home", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.String(200), nullable=False),
        sa.Column("is_one_time", sa.Boolean(), nullable=False),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_name", name="pk_door_accounts"),
    )
    op.create_table(
        "door_outbox",
        sa.Column("entry_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("user_name", USER, nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", TIME, nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("done_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("entry_id", name="pk_door_outbox"),
    )
    op.create_index("ix_door_outbox_user_name", "door_outbox", ["user_name"])
    op.create_table(
        "turns",
        sa.Column("subject", USER, nullable=False),
        sa.Column("holder", sa.String(32), nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_turns"),
    )
    op.create_table(
        "door_facts",
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_door_facts"),
    )
    op.create_table(
        "job_folders",
        sa.Column("user_name", USER, nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("begun_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("trashed_at", TIME, nullable=True),
        sa.Column("trash_name", sa.String(255), nullable=True),
        sa.Column("purged_at", TIME, nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("user_name", "name", name="pk_job_folders"),
    )
    op.create_index("ix_job_folders_ended_at", "job_folders", ["ended_at"])
    _tell_of_known_users()


def _tell_of_known_users() -> None:
    """Who was there before has no home yet: the SFTP server hears of them as of new ones."""
    users = sa.table(
        "users", sa.column("name"), sa.column("is_enabled"), sa.column("quota_bytes"), sa.column("created_at")
    )
    outbox = sa.table(
        "door_outbox", *map(sa.column, ("user_name", "event", "quota_bytes", "created_at", "tries", "next_try_at"))
    )
    columns = ["user_name", "event", "quota_bytes", "created_at", "tries", "next_try_at"]
    for event, which in (("created", sa.true()), ("disabled", sa.not_(users.c.is_enabled))):
        created = users.c.created_at
        told = sa.select(users.c.name, sa.literal(event), users.c.quota_bytes, created, sa.literal(0), created).where(
            which
        )
        op.execute(sa.insert(outbox).from_select(columns, told))


def downgrade() -> None:
    for table in ("job_folders", "door_facts", "turns", "door_outbox", "door_accounts"):
        op.drop_table(table)
