"""Which sweep a training task belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
INDEX = "ix_training_tasks_sweep_id"


def upgrade() -> None:
    op.add_column("training_tasks", sa.Column("sweep_id", sa.String(100), nullable=False, server_default=""))
    op.create_index(INDEX, "training_tasks", ["sweep_id"])


def downgrade() -> None:
    op.drop_index(INDEX, "training_tasks")
    op.drop_column("training_tasks", "sweep_id")
