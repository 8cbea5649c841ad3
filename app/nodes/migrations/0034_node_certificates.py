"""Certificates of nodes, for encrypted links between them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.create_table(
        "node_certificates",
        sa.Column("serial", sa.String(40), primary_key=True),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("expires_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32)),
    )
    op.create_index("ix_node_certificates_node", "node_certificates", ["node"])


def downgrade() -> None:
    op.drop_table("node_certificates")
