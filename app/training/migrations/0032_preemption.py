"""Which training tasks may give way to more urgent ones, and since when one is asked to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.add_column(
        "training_tasks", sa.Column("is_preemptible", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("training_attempts", sa.Column("preempt_asked_at", sa.String(32)))


def downgrade() -> None:
    op.drop_column("training_attempts", "preempt_asked_at")
    op.drop_column("training_tasks", "is_preemptible")
