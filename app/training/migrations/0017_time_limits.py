"""Time limits of training tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("training_tasks", sa.Column("max_run_s", sa.Integer()))


def downgrade() -> None:
    op.drop_column("training_tasks", "max_run_s")
