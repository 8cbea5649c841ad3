"""A sink counts the messages that are too large for its receiver, and goes on after them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.add_column("result_sinks", sa.Column("skipped", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("result_sinks", sa.Column("skip_reason", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("result_sinks", "skip_reason")
    op.drop_column("result_sinks", "skipped")
