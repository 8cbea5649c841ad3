"""Video jobs: since when their source gives no pictures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    with op.batch_alter_table("video_jobs") as table:
        table.add_column(sa.Column("no_signal_since", sa.String(32)))


def downgrade() -> None:
    with op.batch_alter_table("video_jobs") as table:
        table.drop_column("no_signal_since")
