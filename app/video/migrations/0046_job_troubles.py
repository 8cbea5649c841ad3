"""Video jobs: what troubles its runner and its source has columns of its own; it was lines of the reason."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
OF_RUNNER = ("Its runner cannot run: ", "Its runner cannot be changed, and goes on as before: ")
TEXTS = ("runner_trouble", "silence")
JOBS = sa.table("video_jobs", *map(sa.column, ("uid", "ended_at", "reason", "cannot_run", *TEXTS)))


def upgrade() -> None:
    for name in TEXTS:
        op.add_column("video_jobs", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.add_column("video_jobs", sa.Column("cannot_run", sa.Boolean(), nullable=False, server_default=sa.false()))
    conn, c = op.get_bind(), JOBS.c
    for uid, reason in conn.execute(sa.select(c.uid, c.reason).where(c.ended_at.is_(None), c.reason != "")).all():
        trouble, _, silence = reason.rpartition("\n")
        if not silence.startswith("No signal: "):
            trouble, silence = reason, ""
        if not trouble or trouble.startswith(OF_RUNNER):
            values = {"runner_trouble": trouble, "cannot_run": trouble.startswith(OF_RUNNER[0]), "silence": silence}
            conn.execute(sa.update(JOBS).where(c.uid == uid).values(reason="", **values))


def downgrade() -> None:
    conn, c = op.get_bind(), JOBS.c
    for uid, *lines in conn.execute(sa.select(c.uid, c.runner_trouble, c.silence).where(c.reason == "")).all():
        conn.execute(sa.update(JOBS).where(c.uid == uid).values(reason="\n".join(filter(None, lines))))
    for name in (*TEXTS, "cannot_run"):
        op.drop_column("video_jobs", name)
