"""Results are of services, too: rows, events and sinks are no longer video's; a service's rows have numbers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
RENAMED = {
    "video_results": ("result_rows", ("at",)),
    "video_rule_events": ("result_events", ("uid", "at")),
    "video_sinks": ("result_sinks", ("uid",)),
}
"""Before → after, with the columns that have an index."""


def upgrade() -> None:
    for before, (after, indexed) in RENAMED.items():
        _rename(before, after, indexed)
    op.create_table(
        "joint_row_numbers",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(64), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("uid"),
    )


def downgrade() -> None:
    op.drop_table("joint_row_numbers")
    for before, (after, indexed) in RENAMED.items():
        _rename(after, before, indexed)


def _rename(before: str, after: str, indexed: tuple[str, ...]) -> None:
    for column in indexed:
        op.drop_index(f"ix_{before}_{column}", before)
    op.rename_table(before, after)
    for column in indexed:
        op.create_index(f"ix_{after}_{column}", after, [column])
