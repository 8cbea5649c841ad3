"""Jobs: creation, changes, and queries. Runs in the caller's transactions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql import Event, publish
from app.kit.sql.pages import page_of
from app.kit.sql.rows import insert_into, insert_new
from app.kit.text.plain_text import json_text
from app.results.store import forget_producers
from app.video.model.job import TRANSITIONS, Ending, JobState, VideoJob
from app.video.store.history import add_event
from app.video.store.tables import JSON, StoredJob, columns_of, decisions, events, job_of_row, jobs, numbers

IS_UNENDED = jobs.c.state != JobState.DONE.value


class UidTaken(Exception):
    """There is a job of this uid. The transaction is to be rolled back."""


class InvalidTransition(Exception):
    """The state does not follow the one that the job has: a mistake of the program."""


@dataclass(frozen=True)
class JobFilter:
    """Which jobs of a user a page shows."""

    state: JobState | None = None
    text: str = ""
    """Part of the name, the uid, the node or the video."""


# --- how they start ---------------------------------------------------------------------------------
def next_number(conn: Connection) -> int:
    """A number that no job ever had."""
    if conn.dialect.name == "sqlite":  # it goes on after the greatest there ever was
        return int(conn.execute(sa.insert(numbers).returning(numbers.c.number)).scalar_one())
    while True:
        insert = insert_into(conn, numbers).on_conflict_do_nothing().returning(numbers.c.number)
        number = conn.execute(insert).scalar()
        if number is not None:
            return int(number)


def claim_number(conn: Connection, number: int, owner: str) -> None:
    """Keeps a number that this owner brought from being given to others.

    Raises:
        UidTaken: It was given out, and no job of this owner has it.
    """
    if not insert_new(conn, numbers, {"number": number}):
        theirs = sa.select(jobs.c.uid).where(jobs.c.number == number, jobs.c.owner == owner).limit(1)
        if conn.execute(theirs).first() is None:
            raise UidTaken


def add_job(conn: Connection, stored: StoredJob) -> None:
    """Stores a job, and that it was submitted.

    Raises:
        UidTaken: Another job has its uid.
    """
    if not insert_new(conn, jobs, columns_of(stored)):
        raise UidTaken
    add_event(conn, stored.job.uid, stored.job.created_at, type=stored.job.state, message="Submitted.")


# --- what changes them ------------------------------------------------------------------------------
def change(conn: Connection, uid: str, **columns: Any) -> None:
    """Changes columns of a job other than its state; those that hold JSON are given as values."""
    values = {name: json_text(value) if name in JSON else value for name, value in columns.items()}
    conn.execute(sa.update(jobs).where(jobs.c.uid == uid).values(**values))


def enter(
    conn: Connection, stored: StoredJob, state: JobState, *, at: str, message: str, ending: Ending | None = None
) -> None:
    """The only way into another state.

    Args:
        stored: The job, locked.
        message: Why, for the events; also the job's reason in any state but EXEC.
        ending: How it ended; only with DONE.

    Raises:
        InvalidTransition: The state does not follow the one it has.
    """
    if state not in TRANSITIONS[stored.job.state]:
        raise InvalidTransition(f"{stored.job.uid} cannot go from {stored.job.state} to {state}.")
    values: dict[str, Any] = {"state": state.value, "reason": "" if state is JobState.EXEC else message}
    values |= {"runner_trouble": "", "cannot_run": False, "silence": ""}
    if state is JobState.DONE:
        values |= {"ending": ending.value if ending else "", "ended_at": at, "due_at": None}
        values |= {"flags": json_text([]), "no_signal_since": None}
    conn.execute(sa.update(jobs).where(jobs.c.uid == stored.job.uid).values(**values))
    add_event(conn, stored.job.uid, at, type=state, message=message)
    if state is JobState.DONE:
        facts = {"ending": ending.value if ending else "", "reason": message}
        publish(conn, _notification_of(stored.job, "video.ended", at, facts))


def change_flags(
    conn: Connection, job: VideoJob, flags: Collection[str], *, at: str, reasons: Mapping[str, str] | None = None
) -> None:
    """Set what a job is flagged with; its user is told of each flag that comes, and of each that goes, once.

    Args:
        flags: all of them.
        at: now, text in ISO 8601.
        reasons: a sentence for the user, by flag; of another flag its name.
    """
    change(conn, job.uid, flags=sorted(flags))
    begun, over = sorted({*flags} - {*job.flags}), sorted({*job.flags} - {*flags})
    if begun:
        why = dict.fromkeys((reasons or {}).get(flag) or flag for flag in begun)
        alert = {"flags": sorted(flags), "begun": begun, "reason": "\n".join(why)}
        publish(conn, _notification_of(job, "video.alert", at, alert))
    if over:
        publish(conn, _notification_of(job, "video.clear", at, {"flags": sorted(flags), "over": over}))


def _notification_of(job: VideoJob, kind: str, at: str, facts: Mapping[str, Any]) -> Event:
    """What users are told of."""
    subject = f"video:{job.uid}"
    data = {"uid": job.uid, "node": job.node, "video_id": job.video_id, **facts}
    event_id = f"{subject}:{kind}" if kind == "video.ended" else f"{subject}:{kind}:{at}"
    return Event(event_id, kind, job.owner, subject, job.title, at, f"/ui/video/{job.uid}", data)


def forget(conn: Connection, uids: Collection[str]) -> None:
    forget_producers(conn, uids)
    for table in (events, decisions, jobs):
        conn.execute(sa.delete(table).where(table.c.uid.in_(uids)))


# --- how they are found -----------------------------------------------------------------------------
def get(conn: Connection, uid: str) -> StoredJob | None:
    return _find_one(conn, sa.select(jobs).where(jobs.c.uid == uid), uid)


def lock(conn: Connection, uid: str) -> StoredJob | None:
    """As get; nobody else changes the job until the transaction ends."""
    return _find_one(conn, sa.select(jobs).where(jobs.c.uid == uid).with_for_update(), uid)


def page(
    conn: Connection, owner: str, criteria: JobFilter, *, before: tuple[str, str] | None, limit: int
) -> list[StoredJob]:
    """Newest first.

    Args:
        before: created_at and uid of the last one seen.
    """
    if not criteria.text.isprintable():  # PostgreSQL has no texts with NUL
        return []
    query = sa.select(jobs).where(jobs.c.owner == owner)
    if criteria.state is not None:
        query = query.where(jobs.c.state == criteria.state.value)
    if criteria.text:
        columns = (jobs.c.uid, jobs.c.name, jobs.c.node, jobs.c.video_id)
        query = query.where(sa.or_(*(column.icontains(criteria.text, autoescape=True) for column in columns)))
    keys = (jobs.c.created_at, jobs.c.uid)
    return [job_of_row(row) for row in conn.execute(page_of(query, keys, before, limit))]


def list_unended(conn: Connection, *, owner: str = "") -> list[StoredJob]:
    """By number."""
    query = sa.select(jobs).where(IS_UNENDED)
    if owner:
        query = query.where(jobs.c.owner == owner)
    return [job_of_row(row) for row in conn.execute(query.order_by(jobs.c.number, jobs.c.uid))]


def count_unended(conn: Connection, owner: str) -> int:
    query = sa.select(sa.func.count()).select_from(jobs).where(IS_UNENDED, jobs.c.owner == owner)
    return int(conn.execute(query).scalar_one())


def open_uids(conn: Connection) -> list[str]:
    """The uids of the jobs that the controller has to do with, oldest first."""
    query = sa.select(jobs.c.uid).where(jobs.c.is_open).order_by(jobs.c.created_at, jobs.c.number)
    return list(conn.execute(query).scalars())


def list_ended_before(conn: Connection, at: str) -> list[str]:
    query = sa.select(jobs.c.uid).where(~IS_UNENDED, jobs.c.ended_at < at)
    return list(conn.execute(query).scalars())


def count_by_state(conn: Connection) -> dict[str, int]:
    """state → how many jobs are in it."""
    counted = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
    return {state: int(count) for state, count in conn.execute(counted)}


def _find_one(conn: Connection, query: Any, uid: str) -> StoredJob | None:
    row = conn.execute(query).first() if uid.isprintable() else None
    return job_of_row(row) if row else None
