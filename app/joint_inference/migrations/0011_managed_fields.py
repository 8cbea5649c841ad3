"""The owners of the fields of a service."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("joint_services", sa.Column("managed", sa.Text(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("joint_services", "managed")
