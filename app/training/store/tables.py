"""The tables of training; rows as values, and values as what columns hold."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql import metadata
from app.kit.sql.rows import from_row
from app.training.model import (
    Attempt,
    Conversion,
    Demand,
    FailureKind,
    Priority,
    State,
    Task,
    WaitingCode,
    WaitingReason,
    Workload,
)

TIME = sa.String(32)
TASK = sa.String(100)

tasks = sa.Table(
    "training_tasks",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("task_id", TASK, nullable=False, unique=True),
    sa.Column("user_name", sa.String(32), nullable=False),
    sa.Column("workload", sa.String(16), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("jobspec_yaml", sa.Text, nullable=False),
    sa.Column("demand", sa.Text, nullable=False),
    sa.Column("backfill", sa.Boolean, nullable=False),
    sa.Column("infra_retries", sa.Integer, nullable=False),
    sa.Column("max_wait_s", sa.Integer),
    sa.Column("max_run_s", sa.Integer),
    sa.Column("max_idle_s", sa.Integer),
    sa.Column("priority", sa.String(8), nullable=False, server_default="normal"),
    sa.Column("next_run_at", TIME),
    sa.Column("waited_since", TIME, nullable=False),
    sa.Column("cancel_requested_at", TIME),
    sa.Column("latest_attempt_no", sa.Integer, nullable=False),
    sa.Column("waiting", sa.Text),
    sa.Column("failure_kind", sa.String(32)),
    sa.Column("error_summary", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("updated_at", TIME, nullable=False),
    sa.Column("ended_at", TIME),
    sa.Column("idempotency_key", sa.String(200)),
    sa.Column("sweep_id", TASK, nullable=False, server_default="", index=True),
    sa.Column("environment", sa.String(64), nullable=False, server_default=""),
    sa.Column("is_preemptible", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("cluster", sa.String(32), nullable=False, server_default=""),
    sa.Column("sweep_point", sa.Text, nullable=False, server_default=""),
    sa.UniqueConstraint("user_name", "idempotency_key"),
    sa.Index("ix_training_tasks_state_seq", "state", "seq"),
    sa.Index("ix_training_tasks_user_name_seq", "user_name", "seq"),
)
environments = sa.Table(
    "training_environments",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("updated_at", TIME, nullable=False),
    sa.Column("updated_by", sa.String(32), nullable=False),
)
sweeps = sa.Table(
    "training_sweeps",
    metadata,
    sa.Column("sweep_id", TASK, primary_key=True),
    sa.Column("user_name", sa.String(32), nullable=False, index=True),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("is_admins", sa.Boolean, nullable=False),
    sa.Column("is_open", sa.Boolean, nullable=False, index=True),
    sa.Column("metric", sa.String(200), nullable=False),
    sa.Column("remark", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
)
attempts = sa.Table(
    "training_attempts",
    metadata,
    sa.Column("task_id", TASK, primary_key=True),
    sa.Column("attempt_no", sa.Integer, primary_key=True),
    sa.Column("ray_submission_id", sa.String(110), nullable=False, unique=True),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("ray_status", sa.String(16), nullable=False),
    sa.Column("ray_job_id", sa.String(64), nullable=False),
    sa.Column("driver_node_id", sa.String(64), nullable=False),
    sa.Column("exit_code", sa.Integer),
    sa.Column("failure_kind", sa.String(32)),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("submit_payload", sa.Text, nullable=False),
    sa.Column("started_at", TIME),
    sa.Column("ended_at", TIME),
    sa.Column("placement_pending_since", TIME),
    sa.Column("log_bytes", sa.BigInteger, nullable=False),
    sa.Column("output_at", TIME),
    sa.Column("preempt_asked_at", TIME),
    sa.Column("cluster", sa.String(32), nullable=False, server_default=""),
)
events = sa.Table(
    "training_events",
    metadata,
    sa.Column("event_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("task_id", TASK, nullable=False, index=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("event_type", sa.String(32), nullable=False),
    sa.Column("payload_json", sa.Text, nullable=False),
)
conversions = sa.Table(
    "training_conversions",
    metadata,
    sa.Column("task_id", TASK, primary_key=True),
    sa.Column("created_at", TIME, primary_key=True),
    sa.Column("attempt_no", sa.Integer, nullable=False),
    sa.Column("artifact", sa.Text, nullable=False),
    sa.Column("job_id", sa.String(36), nullable=False, index=True),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("next_try_at", TIME),
)


def read_tasks(conn: Connection, query: sa.Select[Any]) -> list[Task]:
    return [to_task(row) for row in conn.execute(query)]


def to_task(row: Row[Any]) -> Task:
    return from_row(
        Task,
        row,
        user=row.user_name,
        workload=Workload(row.workload),
        state=State(row.state),
        spec_text=row.jobspec_yaml,
        demand=to_demand(row.demand),
        backfill=bool(row.backfill),
        is_preemptible=bool(row.is_preemptible),
        sweep_point=json.loads(row.sweep_point or "{}"),
        priority=Priority(row.priority),
        waiting=to_waiting(row.waiting),
        failure_kind=_read_kind(row.failure_kind),
    )


def to_attempt(row: Row[Any]) -> Attempt:
    return from_row(Attempt, row, submission_id=row.ray_submission_id, failure_kind=_read_kind(row.failure_kind))


def to_conversion(row: Row[Any]) -> Conversion:
    return from_row(Conversion, row)


@lru_cache(maxsize=1000)
def to_demand(text: str) -> Demand:
    """Most tasks ask for the same as others: a long queue is not parsed again each time."""
    document = json.loads(text)
    resources = tuple((name, amount) for name, amount in document.pop("resources", ()))
    return Demand(**document, resources=resources)


def to_waiting(text: str | None) -> WaitingReason | None:
    if not text:
        return None
    document = json.loads(text)
    return WaitingReason(WaitingCode(document["code"]), document["facts"])


def _read_kind(text: str | None) -> FailureKind | None:
    return FailureKind(text) if text else None


def to_value(value: Any) -> Any:
    if isinstance(value, WaitingReason):
        return json.dumps({"code": value.code.value, "facts": value.facts})
    return value.value if isinstance(value, State | FailureKind | Priority) else value


def to_values(states: Collection[State]) -> list[str]:
    return sorted(state.value for state in states)
