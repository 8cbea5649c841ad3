"""The index of the archive: finished jobs, searchable by inputs and results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "conversion_archive",
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("model_sha256", sa.String(64), nullable=False),
        sa.Column("toolchain", sa.String(16), nullable=False),
        sa.Column("platform", sa.String(16), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("snr_db", sa.Float()),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("finished_at", sa.String(32), nullable=False),
        sa.Column("took_s", sa.Float(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("is_kept", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_conversion_archive"),
    )
    op.create_index("ix_conversion_archive_owner_finished_at", "conversion_archive", ["owner", "finished_at"])
    op.create_table(
        "conversion_archive_owners",
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("since", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_conversion_archive_owners"),
    )


def downgrade() -> None:
    op.drop_table("conversion_archive_owners")
    op.drop_index("ix_conversion_archive_owner_finished_at", "conversion_archive")
    op.drop_table("conversion_archive")
