"""Users of services are told of each problem by itself: since when there is which is kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    op.add_column("joint_services", sa.Column("problems", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("joint_services", "problems")
