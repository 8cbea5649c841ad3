"""The one-time SFTP password that a new user is given."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    with op.batch_alter_table("door_outbox") as table:
        table.add_column(sa.Column("password_hash", sa.String(200), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("door_outbox") as table:
        table.drop_column("password_hash")
