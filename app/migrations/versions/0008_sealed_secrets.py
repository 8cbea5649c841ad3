"""Secrets of services, video jobs and nodes are stored encrypted: their columns get room for that.

The web server encrypts existing ones when it starts, because a migration has no key.
"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

SECRETS = ("joint_services", "video_jobs")


def upgrade() -> None:
    for table in SECRETS:
        with op.batch_alter_table(table) as batch:
            batch.alter_column("secret", existing_type=sa.String(64), type_=sa.Text(), existing_nullable=False)


def downgrade() -> None:
    """The older version cannot read what is encrypted: it gets new secrets, and nodes are told everything again."""
    conn = op.get_bind()
    for name in SECRETS:
        rows = sa.table(name, sa.column("uid"), sa.column("secret"))
        for uid in conn.execute(sa.select(rows.c.uid)).scalars().all():
            conn.execute(sa.update(rows).where(rows.c.uid == uid).values(secret=secrets.token_urlsafe(32)))
        with op.batch_alter_table(name) as batch:
            batch.alter_column("secret", existing_type=sa.Text(), type_=sa.String(64), existing_nullable=False)
    orders = sa.table("node_orders", sa.column("content"))
    conn.execute(sa.delete(orders).where(orders.c.content.startswith("sealed:")))
