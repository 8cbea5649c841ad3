"""Attempts: each one submission to Ray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.training.model import (
    Attempt,
)
from app.training.store.changes import note_task
from app.training.store.events import add_event
from app.training.store.rows import to_attempt, to_value
from app.training.store.tables import attempts, tasks


def add_attempt(conn: Connection, attempt: Attempt) -> None:
    conn.execute(
        sa.insert(attempts).values(
            task_id=attempt.task_id,
            attempt_no=attempt.attempt_no,
            ray_submission_id=attempt.submission_id,
            created_at=attempt.created_at,
            ray_status=attempt.ray_status,
            ray_job_id=attempt.ray_job_id,
            driver_node_id=attempt.driver_node_id,
            message=attempt.message,
            submit_payload=attempt.submit_payload,
            log_bytes=attempt.log_bytes,
        )
    )
    add_event(conn, attempt.task_id, "ATTEMPT", attempt.created_at, {"attempt_no": attempt.attempt_no})


def change_attempt(conn: Connection, attempt: Attempt, **fields: Any) -> Attempt:
    """fields: of Attempt, all but what names it. Only the scheduler's leader changes attempts."""
    values = {name: to_value(value) for name, value in fields.items()}
    same = (attempts.c.task_id == attempt.task_id, attempts.c.attempt_no == attempt.attempt_no)
    row = conn.execute(sa.update(attempts).where(*same).values(**values).returning(*attempts.c)).one()
    note_task(conn, attempt.task_id)
    return to_attempt(row)


def attempts_of(conn: Connection, task_id: str) -> list[Attempt]:
    """Oldest first."""
    wanted = sa.select(attempts).where(attempts.c.task_id == task_id).order_by(attempts.c.attempt_no)
    return [to_attempt(row) for row in conn.execute(wanted)]


def latest_attempts(conn: Connection, task_ids: Sequence[str]) -> dict[str, Attempt]:
    """The last attempt of each that had one, by task."""
    last = sa.and_(tasks.c.task_id == attempts.c.task_id, tasks.c.latest_attempt_no == attempts.c.attempt_no)
    wanted = sa.select(attempts).join(tasks, last).where(attempts.c.task_id.in_(task_ids))
    return {row.task_id: to_attempt(row) for row in conn.execute(wanted)}
