"""Video jobs: their users' own names for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    with op.batch_alter_table("video_jobs") as table:
        table.add_column(sa.Column("name", sa.String(200), nullable=False, server_default=""))


def downgrade() -> None:
    with op.batch_alter_table("video_jobs") as table:
        table.drop_column("name")
