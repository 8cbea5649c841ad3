"""A service may have many edge workers; and a new model comes to them in waves."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column("joint_services", sa.Column("rollout", sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "joint_edges",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("reported", sa.Text(), nullable=False, server_default="{}"),
        *_make_number_columns(),
        sa.PrimaryKeyConstraint("uid", "node"),
    )
    op.execute(
        "INSERT INTO joint_edges (uid, node, number, run, batch) "
        "SELECT uid, '', number, run, batch FROM joint_row_numbers"
    )
    op.drop_table("joint_row_numbers")


def downgrade() -> None:
    op.create_table(
        "joint_row_numbers",
        sa.Column("uid", sa.String(36), nullable=False),
        *_make_number_columns(),
        sa.PrimaryKeyConstraint("uid"),
    )
    op.execute(
        "INSERT INTO joint_row_numbers (uid, number, run, batch) "
        "SELECT uid, MAX(number), MAX(run), MAX(batch) FROM joint_edges GROUP BY uid"
    )
    op.drop_table("joint_edges")
    op.drop_column("joint_services", "rollout")


def _make_number_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("number", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("run", sa.String(64), nullable=False, server_default=""),
        sa.Column("batch", sa.Integer(), nullable=False, server_default="0"),
    ]
