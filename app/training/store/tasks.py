"""Tasks, their attempts, their events, and conversions of their results. `apply` is the only writer of a task's
state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.kit.sql import Event as UserEvent
from app.kit.sql import publish
from app.kit.sql.rows import first, insert_into, row_of, upsert
from app.kit.text.json_values import JsonObject
from app.training.model import (
    TERMINAL,
    TRANSITIONS,
    WAITING,
    Attempt,
    Conversion,
    Event,
    NewTask,
    State,
    Task,
    TaskEvent,
)
from app.training.store.changes import note_task
from app.training.store.tables import attempts, conversions, events, tasks, to_attempt, to_conversion, to_task, to_value


def add_event(conn: Connection, task_id: str, kind: str, at: str, detail: JsonObject | None = None) -> None:
    """Records an event of a task.

    Args:
        kind: one word.
        at: text in ISO 8601.
        detail: data in the format of the kind.
    """
    conn.execute(
        sa.insert(events).values(task_id=task_id, at=at, event_type=kind, payload_json=json.dumps(detail or {}))
    )
    note_task(conn, task_id)


def events_of(conn: Connection, task_id: str, *, after: int = 0, limit: int = 1000) -> list[TaskEvent]:
    """Oldest first.

    Args:
        after: an event_id.
    """
    conditions = (events.c.task_id == task_id, events.c.event_id > after)
    query = sa.select(events).where(*conditions).order_by(events.c.event_id).limit(limit)
    return [
        TaskEvent(row.event_id, row.task_id, row.at, row.event_type, json.loads(row.payload_json))
        for row in conn.execute(query)
    ]


class TaskIdTaken(Exception):
    """A task with this id, or with this user and idempotency key, exists."""


def add_task(conn: Connection, task: NewTask, at: str, *, idempotency_key: str | None = None) -> Task:
    """Adds a task to the end of the queue.

    Args:
        conn: the caller's transaction, which has to be rolled back after an error.
        task: its initial values.
        at: the time, ISO 8601 in UTC.
        idempotency_key: of its request, if that had one.

    Raises:
        TaskIdTaken: Another task has its id.
    """
    try:
        added = conn.execute(
            sa.insert(tasks).values(
                row_of(
                    tasks,
                    task,
                    idempotency_key=idempotency_key,
                    user_name=task.user,
                    workload=task.workload.value,
                    state=State.QUEUED.value,
                    version=1,
                    jobspec_yaml=task.spec_text,
                    demand=json.dumps(asdict(task.demand)),
                    sweep_point=json.dumps(task.sweep_point) if task.sweep_point else "",
                    priority=task.priority.value,
                    waited_since=at,
                    latest_attempt_no=0,
                    error_summary="",
                    created_at=at,
                    updated_at=at,
                )
            )
        )
    except IntegrityError as error:
        raise TaskIdTaken from error
    seq = int(added.inserted_primary_key[0])  # type: ignore[index]  # a row that was inserted has one
    add_event(conn, task.task_id, "CREATED", at, {"by": task.user})
    return Task(**vars(task), seq=seq, state=State.QUEUED, version=1, created_at=at, updated_at=at, waited_since=at)


def lock_queue_of(conn: Connection, user: str) -> None:
    """Until the transaction ends, nobody else adds a task of this user: SQLite has one writer anyway."""
    if conn.dialect.name == "postgresql":
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"training:{user}"))))


def get_task(conn: Connection, task_id: str) -> Task | None:
    return first(conn, sa.select(tasks).where(tasks.c.task_id == task_id), to_task)


def by_idempotency_key(conn: Connection, user: str, key: str) -> Task | None:
    same = (tasks.c.user_name == user, tasks.c.idempotency_key == key)
    return first(conn, sa.select(tasks).where(*same), to_task)


def apply(
    conn: Connection, task: Task, event: Event, at: str, *, detail: JsonObject | None = None, **fields: Any
) -> Task | None:
    """Applies an event to the task.

    Args:
        task: As it was read.
        at: ISO 8601 in UTC.
        detail: Data of the recorded event.
        fields: Further fields to change, as of `change`.

    Returns:
        The task as it is now; None: it has changed since it was read, and nothing was done.

    Raises:
        KeyError: The state does not allow this event.
    """
    state = TRANSITIONS[task.state, event]
    fields = {"waiting": None, **fields} if state not in WAITING else fields
    if state in TERMINAL:
        fields = {"ended_at": at, **fields}
    changed = change(conn, task, at, state=state, **fields)
    if changed is not None and state is not task.state:
        add_event(conn, task.task_id, "STATE", at, {"from": task.state.value, "to": state.value, **(detail or {})})
        if state in TERMINAL:
            publish(conn, _end_of(changed, at))
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


def add_attempt(conn: Connection, attempt: Attempt) -> None:
    conn.execute(sa.insert(attempts).values(row_of(attempts, attempt, ray_submission_id=attempt.submission_id)))
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
    query = sa.select(attempts).where(attempts.c.task_id == task_id).order_by(attempts.c.attempt_no)
    return [to_attempt(row) for row in conn.execute(query)]


def latest_attempts(conn: Connection, task_ids: Sequence[str]) -> dict[str, Attempt]:
    """The last attempt of each task that had one, by task."""
    is_latest = sa.and_(tasks.c.task_id == attempts.c.task_id, tasks.c.latest_attempt_no == attempts.c.attempt_no)
    query = sa.select(attempts).join(tasks, is_latest).where(attempts.c.task_id.in_(task_ids))
    return {row.task_id: to_attempt(row) for row in conn.execute(query)}


def _end_of(task: Task, at: str) -> UserEvent:
    kind = f"task.{task.state.value.lower()}"
    facts = {
        "task_id": task.task_id,
        "state": task.state.value,
        "attempts": task.latest_attempt_no,
        "code": task.failure_kind.value if task.failure_kind else None,
        "reason": task.error_summary,
    }
    subject = f"task:{task.task_id}"
    return UserEvent(
        f"{subject}:{kind}", kind, task.user, subject, task.name or task.task_id, at, f"/ui/tasks/{task.task_id}", facts
    )


def put_conversion(conn: Connection, conversion: Conversion) -> None:
    """Adds it, or records its outcome."""
    upsert(conn, conversions, asdict(conversion))
    note_task(conn, conversion.task_id)


def claim_conversion(conn: Connection, claim: Conversion, at: str) -> bool:
    """Adds it, or retries it if it is due. Until claim.next_try_at nobody else gets it.

    False: another process makes it, it exists, or it is not to be made.
    """
    insert = insert_into(conn, conversions).values(**asdict(claim))
    taken = insert.on_conflict_do_update(
        index_elements=["task_id", "created_at"],
        set_={"next_try_at": claim.next_try_at},
        where=conversions.c.next_try_at <= at,
    )
    return conn.execute(taken.returning(conversions.c.task_id)).first() is not None


def conversions_due(conn: Connection, at: str) -> list[str]:
    """Tasks with a conversion to try (again)."""
    query = sa.select(conversions.c.task_id).where(conversions.c.next_try_at <= at).distinct()
    return list(conn.execute(query).scalars())


def list_unconverted(conn: Connection, word: str, since: str) -> list[str]:
    """Tasks that succeeded since then, have the word in their spec, and no conversion that started with their end."""
    begun = sa.and_(conversions.c.task_id == tasks.c.task_id, conversions.c.created_at == tasks.c.ended_at)
    query = sa.select(tasks.c.task_id).where(
        tasks.c.state == State.SUCCEEDED.value,
        tasks.c.ended_at >= since,
        tasks.c.jobspec_yaml.contains(word, autoescape=True),
        ~sa.exists().where(begun),
    )
    return list(conn.execute(query.order_by(tasks.c.seq)).scalars())


def conversions_of(conn: Connection, task_id: str) -> list[Conversion]:
    """Oldest first."""
    query = sa.select(conversions).where(conversions.c.task_id == task_id).order_by(conversions.c.created_at)
    return [to_conversion(row) for row in conn.execute(query)]
