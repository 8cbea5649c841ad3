"""Tasks in their order: the queue of those that wait, what Ray has, and what users look through."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.clock import from_text
from app.kit.sql.rows import count_rows, within
from app.training.model import ACTIVE, TERMINAL, WAITING, Demand, Priority, State, Task, WaitingReason, Workload
from app.training.model.clusters import may_share
from app.training.model.queue_order import Use
from app.training.store.changes import note_task
from app.training.store.tables import attempts, read_tasks, tasks, to_demand, to_value, to_values, to_waiting


@dataclass(frozen=True)
class QueueEntry:
    """A waiting task, as the queue sees it."""

    task_id: str
    user: str
    state: State
    demand: Demand
    backfill: bool
    next_run_at: str | None
    waiting: WaitingReason | None
    priority: Priority = Priority.NORMAL
    max_run_s: int | None = None
    environment: str = ""
    cluster: str = ""


@dataclass(frozen=True)
class StateCount:
    """The tasks of one state."""

    state: State
    tasks: int
    """How many there are."""
    waited_since: str
    """Of the one that joined the queue first."""


@dataclass(frozen=True)
class TaskFilter:
    """Filters for tasks. None filters nothing."""

    states: Collection[State] | None = None
    workload: Workload | None = None
    since: str | None = None
    """Of created_at, included."""
    until: str | None = None
    """Of created_at, excluded."""
    text: str | None = None
    """Part of the id or the name."""


def queue(conn: Connection) -> list[QueueEntry]:
    """The whole queue, in order, without the texts of the specs."""
    c = tasks.c
    queued = (c.task_id, c.user_name, c.state, c.demand, c.backfill, c.next_run_at, c.waiting)
    query = (
        sa.select(*queued, c.priority, c.max_run_s, c.environment, c.cluster)
        .where(c.state.in_(to_values(WAITING)))
        .order_by(c.seq)
    )
    return [
        QueueEntry(
            row.task_id,
            row.user_name,
            State(row.state),
            to_demand(row.demand),
            bool(row.backfill),
            row.next_run_at,
            to_waiting(row.waiting),
            Priority(row.priority),
            row.max_run_s,
            row.environment,
            row.cluster,
        )
        for row in conn.execute(query)
    ]


def uses_since(conn: Connection, since: str, now: str) -> list[Use]:
    """GPUs that attempts held and that ended since then, or hold now. Times are ISO 8601 in UTC."""
    c = attempts.c
    columns = (tasks.c.user_name, tasks.c.demand, c.created_at, c.started_at, c.ended_at)
    query = (
        sa.select(*columns)
        .join(tasks, tasks.c.task_id == c.task_id)
        .where(sa.or_(c.ended_at.is_(None), c.ended_at >= since))
    )
    return [
        Use(
            row.user_name,
            to_demand(row.demand).gpus,
            from_text(max(row.started_at or row.created_at, row.created_at)),
            from_text(row.ended_at or now),
        )
        for row in conn.execute(query)
    ]


def note_waiting(conn: Connection, task_ids: Sequence[str], reason: WaitingReason) -> None:
    """Records why these wait, if they still do. A remark of the scheduler's leader: it does not change the version."""
    still = (tasks.c.task_id.in_(task_ids), tasks.c.state.in_(to_values(WAITING)))
    conn.execute(sa.update(tasks).where(*still).values(waiting=to_value(reason)))
    for task_id in task_ids:
        note_task(conn, task_id)


def active(conn: Connection) -> list[Task]:
    """What Ray has or may have, in the order of the queue."""
    is_active = tasks.c.state.not_in(to_values(WAITING | TERMINAL))
    return read_tasks(conn, sa.select(tasks).where(is_active).order_by(tasks.c.seq))


def list_released(conn: Connection) -> list[Task]:
    """Released tasks of which Ray has not confirmed the end."""
    last = sa.and_(attempts.c.task_id == tasks.c.task_id, attempts.c.attempt_no == tasks.c.latest_attempt_no)
    conditions = (tasks.c.state == State.CANCELED.value, attempts.c.ended_at.is_(None))
    return read_tasks(conn, sa.select(tasks).join(attempts, last).where(*conditions).order_by(tasks.c.seq))


def counts_ahead(conn: Connection, listed: Sequence[Task]) -> dict[str, int]:
    """How many tasks of all users precede each of these waiting ones on its cluster, by task."""
    waiting = [task for task in listed if task.is_waiting]
    if not waiting:
        return {}
    last = max(task.seq for task in waiting)
    query = sa.select(tasks.c.seq, tasks.c.cluster).where(tasks.c.state.in_(to_values(WAITING)), tasks.c.seq < last)
    rows = [(row.seq, row.cluster) for row in conn.execute(query.order_by(tasks.c.seq))]
    names = {task.cluster for task in waiting}
    seqs = {name: [seq for seq, cluster in rows if may_share(cluster, name)] for name in names}
    return {task.task_id: bisect_left(seqs[task.cluster], task.seq) for task in waiting}


def count_unended(conn: Connection, user: str | None = None) -> int:
    conditions: list[sa.ColumnElement[bool]] = [tasks.c.state.not_in(to_values(TERMINAL))]
    if user is not None:
        conditions.append(tasks.c.user_name == user)
    return count_rows(conn, tasks, *conditions)


def count_by_state(conn: Connection) -> list[StateCount]:
    """Of everybody's tasks that have not ended."""
    c = tasks.c
    columns = (c.state, sa.func.count(), sa.func.min(c.waited_since))
    query = sa.select(*columns).where(c.state.in_(to_values(WAITING | ACTIVE))).group_by(c.state)
    return [StateCount(State(state), count, since) for state, count, since in conn.execute(query)]


def unended_of(conn: Connection, user: str) -> list[Task]:
    conditions = (tasks.c.user_name == user, tasks.c.state.not_in(to_values(TERMINAL)))
    return read_tasks(conn, sa.select(tasks).where(*conditions).order_by(tasks.c.seq))


def page(
    conn: Connection, user: str | None, filters: TaskFilter, *, before: int | None = None, limit: int
) -> list[Task]:
    """Returns tasks, newest first.

    Args:
        user: whose; None: everybody's.
        before: the seq of the last one of the previous page.
    """
    conditions = within(tasks.c.created_at, filters.since, filters.until)
    if user is not None:
        conditions.append(tasks.c.user_name == user)
    if filters.states is not None:
        conditions.append(tasks.c.state.in_(to_values(filters.states)))
    if filters.workload is not None:
        conditions.append(tasks.c.workload == filters.workload.value)
    if filters.text:
        matches = [column.icontains(filters.text, autoescape=True) for column in (tasks.c.task_id, tasks.c.name)]
        conditions.append(sa.or_(*matches))
    if before is not None:
        conditions.append(tasks.c.seq < before)
    return read_tasks(conn, sa.select(tasks).where(*conditions).order_by(tasks.c.seq.desc()).limit(limit))
