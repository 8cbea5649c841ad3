"""Access rules: groups of users; users of a node and its cameras; users of a stage."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    with op.batch_alter_table("users") as batch:
        batch.add_column(sa.Column("group_names", sa.Text(), nullable=False, server_default=""))
    with op.batch_alter_table("nodes") as batch:
        batch.add_column(sa.Column("access", sa.Text(), nullable=False, server_default="{}"))
    with op.batch_alter_table("video_stages") as batch:
        batch.add_column(sa.Column("allowed", sa.Text(), nullable=False, server_default="null"))


def downgrade() -> None:
    for table, column in (("video_stages", "allowed"), ("nodes", "access"), ("users", "group_names")):
        with op.batch_alter_table(table) as batch:
            batch.drop_column(column)
