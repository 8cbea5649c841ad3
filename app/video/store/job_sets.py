"""Job sets in SQL. In the caller's transactions."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql.rows import first, from_row, row_of
from app.kit.text.plain_text import json_text
from app.video.model.job import VideoJob
from app.video.model.job_set import JobSet
from app.video.store.tables import job_of_row, job_sets, jobs


def add_set(conn: Connection, added: JobSet) -> None:
    texts = {name: json_text(dict(getattr(added, name))) for name in ("selector", "submission")}
    conn.execute(sa.insert(job_sets).values(row_of(job_sets, added, **texts)))


def get_set(conn: Connection, owner: str, set_id: str) -> JobSet | None:
    query = sa.select(job_sets).where(job_sets.c.set_id == set_id, job_sets.c.owner == owner)
    return first(conn, query, _set)


def all_sets(conn: Connection, owner: str | None = None) -> list[JobSet]:
    """Newest first; owner: only theirs."""
    query = sa.select(job_sets).order_by(job_sets.c.created_at.desc(), job_sets.c.set_id)
    if owner is not None:
        query = query.where(job_sets.c.owner == owner)
    return [_set(row) for row in conn.execute(query)]


def note_problem(conn: Connection, set_id: str, problem: str) -> None:
    conn.execute(sa.update(job_sets).where(job_sets.c.set_id == set_id).values(problem=problem))


def forget_set(conn: Connection, set_id: str) -> None:
    conn.execute(sa.delete(job_sets).where(job_sets.c.set_id == set_id))


def jobs_of_set(conn: Connection, set_id: str) -> list[VideoJob]:
    """By node and video, the newest of a video first."""
    query = sa.select(jobs).where(jobs.c.set_id == set_id)
    rows = conn.execute(query.order_by(jobs.c.node, jobs.c.video_id, jobs.c.number.desc()))
    return [job_of_row(row).job for row in rows]


def _set(row: Row[Any]) -> JobSet:
    return from_row(JobSet, row, selector=json.loads(row.selector), submission=json.loads(row.submission))
