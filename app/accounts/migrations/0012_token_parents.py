"""Which token made a token."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("api_tokens", sa.Column("made_by", sa.String(16)))
    op.create_index("ix_api_tokens_made_by", "api_tokens", ["made_by"])


def downgrade() -> None:
    op.drop_index("ix_api_tokens_made_by", "api_tokens")
    op.drop_column("api_tokens", "made_by")
