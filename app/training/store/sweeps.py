"""Sweeps of tasks: their documents, whether tasks are still added, and what their tasks have reached."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql import note_change
from app.kit.sql.rows import first, from_row, row_of
from app.training.model import Task, TaskEvent
from app.training.store.changes import ALL_TASKS
from app.training.store.tables import events, read_tasks, sweeps, tasks

REACHED, STOPPED_EARLY, RESULT = "SWEEP_REACHED", "STOPPED_EARLY", "SWEEP_RESULT"
"""Events of a task: it came to a comparison and goes on; it came to one and is stopped; the best of all it reported
(value null: nothing). Their details: metric, step, value."""


@dataclass(frozen=True)
class StoredSweep:
    """A sweep as it is stored."""

    sweep_id: str
    user_name: str
    document: str
    """As it was submitted."""
    is_admins: bool
    """An administrator submitted it, who may ask for more."""
    created_at: str
    is_open: bool = True
    """It is looked after: tasks are to be added, or to be measured."""
    metric: str = ""
    """What its tasks are compared by; "": nothing so far."""
    remark: str = ""
    """Why no more tasks are added, in a sentence; "": more are, or all there are to be."""


def add_sweep(conn: Connection, sweep: StoredSweep) -> None:
    conn.execute(sa.insert(sweeps).values(row_of(sweeps, sweep)))


def sweep_of(conn: Connection, user: str, sweep_id: str) -> StoredSweep | None:
    query = sa.select(sweeps).where(sweeps.c.sweep_id == sweep_id, sweeps.c.user_name == user)
    return first(conn, query, partial(from_row, StoredSweep))


def sweeps_of(conn: Connection, user: str, limit: int) -> list[StoredSweep]:
    """Of a user, the newest first."""
    newest = sa.desc(sweeps.c.created_at), sweeps.c.sweep_id
    query = sa.select(sweeps).where(sweeps.c.user_name == user).order_by(*newest).limit(limit)
    return [from_row(StoredSweep, row) for row in conn.execute(query)]


def open_sweeps(conn: Connection) -> list[StoredSweep]:
    """Oldest first."""
    query = sa.select(sweeps).where(sweeps.c.is_open).order_by(sweeps.c.created_at, sweeps.c.sweep_id)
    return [from_row(StoredSweep, row) for row in conn.execute(query)]


def change_sweep(conn: Connection, sweep_id: str, **fields: object) -> None:
    """fields: is_open, metric, remark."""
    conn.execute(sa.update(sweeps).where(sweeps.c.sweep_id == sweep_id).values(**fields))
    note_change(conn, ALL_TASKS)


def end_sweeps_of(conn: Connection, user: str, remark: str) -> None:
    """No more tasks are added to sweeps of a user."""
    theirs = (sweeps.c.user_name == user, sweeps.c.is_open)
    conn.execute(sa.update(sweeps).where(*theirs).values(remark=remark))


def tasks_by_sweep(conn: Connection, sweep_ids: Collection[str]) -> Mapping[str, list[Task]]:
    """In the order of submission."""
    grouped: dict[str, list[Task]] = defaultdict(list)
    for task in read_tasks(conn, sa.select(tasks).where(tasks.c.sweep_id.in_(sweep_ids)).order_by(tasks.c.seq)):
        grouped[task.sweep_id].append(task)
    return grouped


def sweep_events(conn: Connection, task_ids: Collection[str]) -> list[TaskEvent]:
    """What tasks of a sweep reached, in the order of its record."""
    kinds = (REACHED, STOPPED_EARLY, RESULT)
    query = sa.select(events).where(events.c.task_id.in_(task_ids), events.c.event_type.in_(kinds))
    return [
        TaskEvent(row.event_id, row.task_id, row.at, row.event_type, json.loads(row.payload_json))
        for row in conn.execute(query.order_by(events.c.event_id))
    ]
