"""Services are watched for drift."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.create_table(
        "joint_drifts",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("drift", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
    )


def downgrade() -> None:
    op.drop_table("joint_drifts")
