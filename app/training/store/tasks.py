"""Tasks: how they begin, and what changes them. `apply` is the one writer of a state."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.training.model import (
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Demand,
    Event,
    State,
    Task,
    Workload,
)
from app.training.store.changes import note_task
from app.training.store.events import add_event
from app.training.store.rows import to_task, to_value
from app.training.store.tables import tasks


@dataclass(frozen=True)
class NewTask:
    """What a task begins with; the rest follows from it."""

    task_id: str
    user: str
    workload: Workload
    spec_text: str
    demand: Demand
    name: str = ""
    backfill: bool = False
    infra_retries: int = 1
    max_wait_s: int | None = None
    idempotency_key: str | None = None


class TaskIdTaken(Exception):
    """There is a task of this id, or of this user and idempotency key."""


def add_task(conn: Connection, new: NewTask, at: str) -> Task:
    """At the end of the line. Raises TaskIdTaken; the transaction is to be given up then."""
    try:
        added = conn.execute(
            sa.insert(tasks).values(
                task_id=new.task_id,
                user_name=new.user,
                workload=new.workload.value,
                name=new.name,
                state=State.QUEUED.value,
                version=1,
                jobspec_yaml=new.spec_text,
                demand=json.dumps(asdict(new.demand)),
                backfill=new.backfill,
                infra_retries=new.infra_retries,
                max_wait_s=new.max_wait_s,
                waited_since=at,
                latest_attempt_no=0,
                error_summary="",
                created_at=at,
                updated_at=at,
                idempotency_key=new.idempotency_key,
            )
        )
    except IntegrityError as error:
        raise TaskIdTaken from error
    seq = int(added.inserted_primary_key[0])  # type: ignore[index]
    add_event(conn, new.task_id, "CREATED", at, {"by": new.user})
    return Task(
        new.task_id,
        seq,
        new.user,
        new.workload,
        State.QUEUED,
        1,
        new.spec_text,
        new.demand,
        at,
        at,
        at,
        new.name,
        new.backfill,
        new.infra_retries,
        new.max_wait_s,
    )


def lock_line_of(conn: Connection, user: str) -> None:
    """Until the transaction ends nobody else adds a task of this user's: SQLite has one writer anyway."""
    if conn.dialect.name == "postgresql":
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"training:{user}"))))


def get_task(conn: Connection, task_id: str) -> Task | None:
    row = conn.execute(sa.select(tasks).where(tasks.c.task_id == task_id)).first()
    return to_task(row) if row else None


def by_idempotency_key(conn: Connection, user: str, key: str) -> Task | None:
    same = (tasks.c.user_name == user, tasks.c.idempotency_key == key)
    row = conn.execute(sa.select(tasks).where(*same)).first()
    return to_task(row) if row else None


def apply(
    conn: Connection, task: Task, event: Event, at: str, *, detail: dict[str, Any] | None = None, **fields: Any
) -> Task | None:
    """Do to the task what the event means, with the further fields. None: it is not as it was read, nothing was done.

    fields: as of change. detail: goes into the event. Raises KeyError for an event that the state does not allow.
    """
    state = TRANSITIONS[task.state, event]
    fields = {"waiting": None, **fields} if state not in WAITING else fields
    if state in TERMINAL:
        fields = {"ended_at": at, **fields}
    changed = change(conn, task, at, state=state, **fields)
    if changed is not None and state is not task.state:
        add_event(conn, task.task_id, "STATE", at, {"from": task.state.value, "to": state.value, **(detail or {})})
    return changed


def change(conn: Connection, task: Task, at: str, **fields: Any) -> Task | None:
    """fields: waiting, next_run_at, waited_since, cancel_requested_at, latest_attempt_no, infra_retries, failure_kind,
    error_summary. None: it is not as it was read, nothing was done. The state is apply's."""
    values = {
        **{name: to_value(value) for name, value in fields.items()},
        "version": task.version + 1,
        "updated_at": at,
    }
    same = (tasks.c.task_id == task.task_id, tasks.c.version == task.version)
    row = conn.execute(sa.update(tasks).where(*same).values(**values).returning(*tasks.c)).first()
    if row:
        note_task(conn, task.task_id)
    return to_task(row) if row else None
