"""The one-time SFTP password of a new user, which token set a password or key, how many files a home may hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
LIMITED = ("users", "door_accounts", "door_outbox")


def upgrade() -> None:
    with op.batch_alter_table("door_outbox") as table:
        table.add_column(sa.Column("password_hash", sa.String(200), nullable=True))
    for name in LIMITED:
        with op.batch_alter_table(name) as table:
            table.add_column(sa.Column("quota_files", sa.BigInteger(), nullable=True))
    op.create_table(
        "door_bindings",
        sa.Column("user_name", sa.String(32), nullable=False),
        sa.Column("credential", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("user_name", "credential", name=op.f("pk_door_bindings")),
    )


def downgrade() -> None:
    op.drop_table("door_bindings")
    for name in LIMITED:
        with op.batch_alter_table(name) as table:
            table.drop_column("quota_files")
    with op.batch_alter_table("door_outbox") as table:
        table.drop_column("password_hash")
