"""Folders of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.homes.store.tables import job_folders
from app.kit.clock import from_text, to_text
from app.kit.sql.rows import insert_into, upsert


@dataclass(frozen=True)
class JobFolder:
    """The folder of a job, and its state."""

    user: str
    name: str
    begun_at: datetime
    ended_at: datetime | None
    trashed_at: datetime | None
    trash_name: str | None
    purged_at: datetime | None
    size_bytes: int | None
    problem: str | None
    """The obstacle that keeps the sweeper from moving or deleting it."""


def record_folder_use(conn: Connection, user: str, name: str, at: datetime) -> None:
    """A job's folder is in use, again if the job restarts.

    Args:
        name: of the folder, below the user's jobs.
    """
    upsert(
        conn,
        job_folders,
        {
            "user_name": user,
            "name": name,
            "begun_at": to_text(at),
            "ended_at": None,
            "trashed_at": None,
            "trash_name": None,
            "purged_at": None,
            "size_bytes": None,
            "problem": None,
        },
    )


def folder_ended(conn: Connection, user: str, name: str, at: datetime) -> None:
    """A job has ended, so that its folder's retention starts. The first end counts: a repeated report does not restart
    it.

    Args:
        name: of the folder, below the user's jobs.
    """
    insert = insert_into(conn, job_folders).values(
        user_name=user, name=name, begun_at=to_text(at), ended_at=to_text(at)
    )
    conn.execute(
        insert.on_conflict_do_update(
            index_elements=["user_name", "name"], set_={"ended_at": to_text(at)}, where=job_folders.c.ended_at.is_(None)
        )
    )


def change_folder(conn: Connection, folder: JobFolder, **fields: Any) -> bool:
    """Unless it started again since it was read.

    Args:
        fields: trashed_at, trash_name, purged_at, size_bytes, problem.
    """
    values = {name: _to_text(value) for name, value in fields.items()}
    c = job_folders.c
    same = (c.user_name == folder.user, c.name == folder.name, c.ended_at == _to_text(folder.ended_at))
    return conn.execute(sa.update(job_folders).where(*same).values(**values)).rowcount == 1


def lock_folders(conn: Connection, user: str, names: Sequence[str]) -> dict[str, JobFolder]:
    """By name. Nobody else changes them until the transaction ends."""
    theirs = (job_folders.c.user_name == user, job_folders.c.name.in_(names))
    statement = sa.select(job_folders).where(*theirs).order_by(job_folders.c.name).with_for_update()
    return {row.name: _folder_from_row(row) for row in conn.execute(statement)}


def folders_of(conn: Connection, user: str, names: Sequence[str] | None = None) -> list[JobFolder]:
    """Those that are not purged, by their start."""
    statement = sa.select(job_folders).where(job_folders.c.user_name == user, job_folders.c.purged_at.is_(None))
    if names is not None:
        statement = statement.where(job_folders.c.name.in_(names))
    return [_folder_from_row(row) for row in conn.execute(statement.order_by(job_folders.c.begun_at))]


def folders_ended_before(conn: Connection, moment: datetime, *, is_trashed: bool) -> list[JobFolder]:
    """Not purged; by user, so that a home is opened once."""
    place = job_folders.c.trashed_at.is_not(None) if is_trashed else job_folders.c.trashed_at.is_(None)
    statement = sa.select(job_folders).where(
        job_folders.c.ended_at <= to_text(moment), job_folders.c.purged_at.is_(None), place
    )
    return [
        _folder_from_row(row)
        for row in conn.execute(statement.order_by(job_folders.c.user_name, job_folders.c.ended_at))
    ]


def _folder_from_row(row: Row[Any]) -> JobFolder:
    times = {name: _parse_moment(getattr(row, name)) for name in ("ended_at", "trashed_at", "purged_at")}
    return JobFolder(
        user=row.user_name,
        name=row.name,
        begun_at=from_text(row.begun_at),
        trash_name=row.trash_name,
        size_bytes=row.size_bytes,
        problem=row.problem,
        **times,
    )


def _parse_moment(text: str | None) -> datetime | None:
    return from_text(text) if text else None


def _to_text(value: Any) -> Any:
    return to_text(value) if isinstance(value, datetime) else value
