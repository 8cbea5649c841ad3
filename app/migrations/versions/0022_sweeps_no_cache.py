"""Sweeps whose jobs do every stage, whatever was done before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    with op.batch_alter_table("sweeps") as table:
        table.add_column(sa.Column("no_cache", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    with op.batch_alter_table("sweeps") as table:
        table.drop_column("no_cache")
