"""Nodes have labels, by which services and jobs select them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.add_column("nodes", sa.Column("labels", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("nodes", "labels")
