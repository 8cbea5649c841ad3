"""Video: jobs, their events and decisions, the catalog of stages, and profiles."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "video_numbers",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_video_numbers")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "video_jobs",
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("video_id", sa.String(64), nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("ended_at", sa.String(32), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("ending", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("policy", sa.String(128), nullable=False),
        sa.Column("realtime", sa.Boolean(), nullable=False),
        sa.Column("restart_policy", sa.String(16), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("dag", sa.Text(), nullable=False),
        sa.Column("stages", sa.Text(), nullable=False),
        sa.Column("user_constraint", sa.Text(), nullable=False),
        sa.Column("plan_seq", sa.Integer(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("plan_result", sa.Text(), nullable=False),
        sa.Column("generator_output", sa.Text(), nullable=False),
        sa.Column("results", sa.Text(), nullable=False),
        sa.Column("n_loop", sa.Integer(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("report_seq", sa.Integer(), nullable=False),
        sa.Column("reported_at", sa.String(32), nullable=True),
        sa.Column("asked", sa.Integer(), nullable=False),
        sa.Column("memory", sa.Text(), nullable=False),
        sa.Column("claimed_at", sa.String(32), nullable=True),
        sa.Column("due_at", sa.String(32), nullable=True),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_video_jobs")),
    )
    for column in ("number", "owner", "node", "state", "is_open"):
        op.create_index(op.f(f"ix_video_jobs_{column}"), "video_jobs", [column])
    op.create_table(
        "video_events",
        sa.Column("event_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_video_events")),
    )
    op.create_index(op.f("ix_video_events_uid"), "video_events", ["uid"])
    op.create_table(
        "video_decisions",
        sa.Column("decision_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("policy", sa.String(128), nullable=False),
        sa.Column("why", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("took_ms", sa.Float(), nullable=False),
        sa.Column("inputs_hash", sa.String(64), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("decision_id", name=op.f("pk_video_decisions")),
    )
    op.create_index(op.f("ix_video_decisions_uid"), "video_decisions", ["uid"])
    op.create_table(
        "video_stages",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_video_stages")),
    )
    op.create_table(
        "video_measurements",
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("stage", sa.String(64), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("resolution", sa.String(16), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("delay_s", sa.Float(), nullable=False),
        sa.Column("bytes", sa.Float(), nullable=False),
        sa.Column("quality", sa.Float(), nullable=False),
        sa.Column("frames", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("node", "stage", "model", "resolution", name=op.f("pk_video_measurements")),
    )


def downgrade() -> None:
    for table in (
        "video_measurements",
        "video_stages",
        "video_decisions",
        "video_events",
        "video_jobs",
        "video_numbers",
    ):
        op.drop_table(table)
