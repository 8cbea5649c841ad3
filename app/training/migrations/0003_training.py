"""Training: tasks, their attempts, their events, and the conversions of their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
TIME = sa.String(32)
TASK = sa.String(100)


def upgrade() -> None:
    op.create_table(
        "training_tasks",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("task_id", TASK, nullable=False),
        sa.Column("user_name", sa.String(32), nullable=False),
        sa.Column("workload", sa.String(16), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("jobspec_yaml", sa.Text(), nullable=False),
        sa.Column("demand", sa.Text(), nullable=False),
        sa.Column("backfill", sa.Boolean(), nullable=False),
        sa.Column("infra_retries", sa.Integer(), nullable=False),
        sa.Column("max_wait_s", sa.Integer(), nullable=True),
        sa.Column("next_run_at", TIME, nullable=True),
        sa.Column("waited_since", TIME, nullable=False),
        sa.Column("cancel_requested_at", TIME, nullable=True),
        sa.Column("latest_attempt_no", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Text(), nullable=True),
        sa.Column("failure_kind", sa.String(32), nullable=True),
        sa.Column("error_summary", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("idempotency_key", sa.String(200), nullable=True),
        sa.PrimaryKeyConstraint("seq", name="pk_training_tasks"),
        sa.UniqueConstraint("task_id", name="uq_training_tasks_task_id"),
        sa.UniqueConstraint("user_name", "idempotency_key", name="uq_training_tasks_user_name_idempotency_key"),
    )
    op.create_index("ix_training_tasks_state_seq", "training_tasks", ["state", "seq"])
    op.create_index("ix_training_tasks_user_name_seq", "training_tasks", ["user_name", "seq"])
    op.create_table(
        "training_attempts",
        sa.Column("task_id", TASK, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("ray_submission_id", sa.String(110), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ray_status", sa.String(16), nullable=False),
        sa.Column("ray_job_id", sa.String(64), nullable=False),
        sa.Column("driver_node_id", sa.String(64), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("failure_kind", sa.String(32), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("submit_payload", sa.Text(), nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("placement_pending_since", TIME, nullable=True),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "attempt_no", name="pk_training_attempts"),
        sa.UniqueConstraint("ray_submission_id", name="uq_training_attempts_ray_submission_id"),
    )
    op.create_table(
        "training_events",
        sa.Column("event_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("task_id", TASK, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("event_type", sa.String(32), nullable=False),
        sa.Column("payload_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_training_events"),
    )
    op.create_index("ix_training_events_task_id", "training_events", ["task_id"])
    op.create_table(
        "training_conversions",
        sa.Column("task_id", TASK, nullable=False),
        sa.Column("attempt_no", sa.Integer(), nullable=False),
        sa.Column("artifact", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("next_try_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("task_id", "created_at", name="pk_training_conversions"),
    )
    op.create_index("ix_training_conversions_job_id", "training_conversions", ["job_id"])


def downgrade() -> None:
    for table in ("training_conversions", "training_events", "training_attempts", "training_tasks"):
        op.drop_table(table)
