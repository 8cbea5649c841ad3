"""Rows as values, and values as what columns hold."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from app.training.model import (
    Attempt,
    Conversion,
    Demand,
    FailureKind,
    State,
    Task,
    Waiting,
    WaitingCode,
    Workload,
)


def read_tasks(conn: Connection, wanted: sa.Select[Any]) -> list[Task]:
    return [to_task(row) for row in conn.execute(wanted)]


def to_task(row: Any) -> Task:
    return Task(
        task_id=row.task_id,
        seq=row.seq,
        user=row.user_name,
        workload=Workload(row.workload),
        state=State(row.state),
        version=row.version,
        spec_text=row.jobspec_yaml,
        demand=to_demand(row.demand),
        created_at=row.created_at,
        updated_at=row.updated_at,
        waited_since=row.waited_since,
        name=row.name,
        backfill=bool(row.backfill),
        infra_retries=row.infra_retries,
        max_wait_s=row.max_wait_s,
        next_run_at=row.next_run_at,
        cancel_requested_at=row.cancel_requested_at,
        latest_attempt_no=row.latest_attempt_no,
        waiting=to_waiting(row.waiting),
        failure_kind=_kind(row.failure_kind),
        error_summary=row.error_summary,
        ended_at=row.ended_at,
    )


def to_attempt(row: Any) -> Attempt:
    return Attempt(
        task_id=row.task_id,
        attempt_no=row.attempt_no,
        submission_id=row.ray_submission_id,
        created_at=row.created_at,
        ray_status=row.ray_status,
        ray_job_id=row.ray_job_id,
        driver_node_id=row.driver_node_id,
        exit_code=row.exit_code,
        failure_kind=_kind(row.failure_kind),
        message=row.message,
        submit_payload=row.submit_payload,
        started_at=row.started_at,
        ended_at=row.ended_at,
        placement_pending_since=row.placement_pending_since,
        log_bytes=row.log_bytes,
    )


def to_conversion(row: Any) -> Conversion:
    return Conversion(
        row.task_id, row.attempt_no, row.artifact, row.created_at, row.job_id, row.problem, row.next_try_at
    )


def insert_of(conn: Connection) -> Any:
    return sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert


@lru_cache(maxsize=1000)
def to_demand(text: str) -> Demand:
    """Most tasks ask for the same as others: a long line is not read anew each time."""
    return Demand(**json.loads(text))


def to_waiting(text: str | None) -> Waiting | None:
    if not text:
        return None
    known = json.loads(text)
    return Waiting(WaitingCode(known["code"]), known["facts"])


def _kind(text: str | None) -> FailureKind | None:
    return FailureKind(text) if text else None


def to_value(value: Any) -> Any:
    if isinstance(value, Waiting):
        return json.dumps({"code": value.code.value, "facts": value.facts})
    return value.value if isinstance(value, State | FailureKind) else value


def to_values(states: Collection[State]) -> list[str]:
    return sorted(state.value for state in states)
