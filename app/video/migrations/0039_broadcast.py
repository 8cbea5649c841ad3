"""Video jobs: what the runner says of the broadcast of its picture."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    with op.batch_alter_table("video_jobs") as table:
        table.add_column(sa.Column("broadcast", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    with op.batch_alter_table("video_jobs") as table:
        table.drop_column("broadcast")
