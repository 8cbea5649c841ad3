"""Tasks in their order: the line of those that wait, what Ray has, and what users look through."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from app.training.model import (
    ACTIVE,
    TERMINAL,
    WAITING,
    Demand,
    State,
    Task,
    Waiting,
    Workload,
)
from app.training.store.changes import note_task
from app.training.store.tables import attempts, read_tasks, tasks, to_demand, to_value, to_values, to_waiting


@dataclass(frozen=True)
class Place:
    """A waiting task, as far as the line is concerned."""

    task_id: str
    user: str
    state: State
    demand: Demand
    backfill: bool
    next_run_at: str | None
    waiting: Waiting | None


@dataclass(frozen=True)
class StateCount:
    """The tasks of one state. waited_since: of the one that joined the line first."""

    state: State
    tasks: int
    waited_since: str


@dataclass(frozen=True)
class Filter:
    """None filters nothing. since, until: of created_at, from (incl.) and to (excl.). text: part of the id or name."""

    states: Collection[State] | None = None
    workload: Workload | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None


def queue(conn: Connection) -> list[Place]:
    """The whole line, in order, without what is written in the specs."""
    c = tasks.c
    columns = (c.task_id, c.user_name, c.state, c.demand, c.backfill, c.next_run_at, c.waiting)
    wanted = sa.select(*columns).where(c.state.in_(to_values(WAITING))).order_by(c.seq)
    return [
        Place(
            row.task_id,
            row.user_name,
            State(row.state),
            to_demand(row.demand),
            bool(row.backfill),
            row.next_run_at,
            to_waiting(row.waiting),
        )
        for row in conn.execute(wanted)
    ]


def note_waiting(conn: Connection, task_ids: Sequence[str], reason: Waiting) -> None:
    """Why these wait, as far as they still do. A remark of the scheduler's leader: no version counts it."""
    still = (tasks.c.task_id.in_(task_ids), tasks.c.state.in_(to_values(WAITING)))
    conn.execute(sa.update(tasks).where(*still).values(waiting=to_value(reason)))
    for task_id in task_ids:
        note_task(conn, task_id)


def active(conn: Connection) -> list[Task]:
    """What Ray has or may have, in the order of the line."""
    wanted = tasks.c.state.not_in(to_values(WAITING | TERMINAL))
    return read_tasks(conn, sa.select(tasks).where(wanted).order_by(tasks.c.seq))


def released(conn: Connection) -> list[Task]:
    """What was let go although Ray had not said that it ended, and has not since then."""
    last = sa.and_(attempts.c.task_id == tasks.c.task_id, attempts.c.attempt_no == tasks.c.latest_attempt_no)
    let_go = (tasks.c.state == State.CANCELED.value, attempts.c.ended_at.is_(None))
    return read_tasks(conn, sa.select(tasks).join(attempts, last).where(*let_go).order_by(tasks.c.seq))


def counts_ahead(conn: Connection, found: Sequence[Task]) -> dict[str, int]:
    """How many of everybody's wait before each of these that waits, by task."""
    waiting_ones = [task for task in found if task.is_waiting]
    if not waiting_ones:
        return {}
    last = max(task.seq for task in waiting_ones)
    wanted = sa.select(tasks.c.seq).where(tasks.c.state.in_(to_values(WAITING)), tasks.c.seq < last)
    line = list(conn.execute(wanted.order_by(tasks.c.seq)).scalars())
    return {task.task_id: bisect_left(line, task.seq) for task in waiting_ones}


def count_unended(conn: Connection, user: str | None = None) -> int:
    wanted: list[sa.ColumnElement[bool]] = [tasks.c.state.not_in(to_values(TERMINAL))]
    if user is not None:
        wanted.append(tasks.c.user_name == user)
    return conn.execute(sa.select(sa.func.count()).select_from(tasks).where(*wanted)).scalar_one()


def census(conn: Connection) -> list[StateCount]:
    """Of everybody's tasks that have not ended."""
    c = tasks.c
    columns = (c.state, sa.func.count(), sa.func.min(c.waited_since))
    wanted = sa.select(*columns).where(c.state.in_(to_values(WAITING | ACTIVE))).group_by(c.state)
    return [StateCount(State(state), count, since) for state, count, since in conn.execute(wanted)]


def unended_of(conn: Connection, user: str) -> list[Task]:
    theirs = (tasks.c.user_name == user, tasks.c.state.not_in(to_values(TERMINAL)))
    return read_tasks(conn, sa.select(tasks).where(*theirs).order_by(tasks.c.seq))


def page(conn: Connection, user: str, wanted: Filter, *, before: int | None = None, limit: int) -> list[Task]:
    """The user's, newest first. before: the seq of the last one of the page before."""
    where: list[sa.ColumnElement[bool]] = [tasks.c.user_name == user]
    if wanted.states is not None:
        where.append(tasks.c.state.in_(to_values(wanted.states)))
    if wanted.workload is not None:
        where.append(tasks.c.workload == wanted.workload.value)
    if wanted.since is not None:
        where.append(tasks.c.created_at >= wanted.since)
    if wanted.until is not None:
        where.append(tasks.c.created_at < wanted.until)
    if wanted.text:
        found = [column.icontains(wanted.text, autoescape=True) for column in (tasks.c.task_id, tasks.c.name)]
        where.append(sa.or_(*found))
    if before is not None:
        where.append(tasks.c.seq < before)
    return read_tasks(conn, sa.select(tasks).where(*where).order_by(tasks.c.seq.desc()).limit(limit))
