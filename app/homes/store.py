"""Stores in SQL what homes must not forget: SFTP accounts, changes the SFTP backend has to be told, folders of jobs,
and leases.

Knows no rules: they are the service's, the backends' and the sweeper's. All runs in the caller's transactions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from app.kit.clock import from_text, to_text
from app.kit.sql import metadata

TIME = sa.String(32)
USER = sa.String(32)

door_accounts = sa.Table(
    "door_accounts",
    metadata,
    sa.Column("user_name", USER, primary_key=True),
    sa.Column("home", sa.Text, nullable=False),
    sa.Column("password_hash", sa.String(200), nullable=False),
    sa.Column("is_one_time", sa.Boolean, nullable=False),
    sa.Column("keys", sa.Text, nullable=False),
    sa.Column("is_enabled", sa.Boolean, nullable=False),
    sa.Column("quota_bytes", sa.BigInteger, nullable=False),
    sa.Column("quota_files", sa.BigInteger),
)
door_outbox = sa.Table(
    "door_outbox",
    metadata,
    sa.Column("entry_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("user_name", USER, nullable=False, index=True),
    sa.Column("event", sa.String(16), nullable=False),
    sa.Column("quota_bytes", sa.BigInteger),
    sa.Column("quota_files", sa.BigInteger),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("next_try_at", TIME, nullable=False),
    sa.Column("last_error", sa.Text),
    sa.Column("done_at", TIME),
    sa.Column("password_hash", sa.String(200)),
)
door_facts = sa.Table(
    "door_facts",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
job_folders = sa.Table(
    "job_folders",
    metadata,
    sa.Column("user_name", USER, primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("begun_at", TIME, nullable=False),
    sa.Column("ended_at", TIME, index=True),
    sa.Column("trashed_at", TIME),
    sa.Column("trash_name", sa.String(255)),
    sa.Column("purged_at", TIME),
    sa.Column("size_bytes", sa.BigInteger),
    sa.Column("problem", sa.Text),
)
door_bindings = sa.Table(
    "door_bindings",
    metadata,
    sa.Column("user_name", USER, primary_key=True),
    sa.Column("credential", sa.String(64), primary_key=True),
    sa.Column("token_id", sa.String(16), nullable=False),
)
leases = sa.Table(
    "turns",
    metadata,
    sa.Column("subject", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("until", sa.String(32), nullable=False),
)


@dataclass(frozen=True)
class SftpAccount:
    """An account of the built-in SFTP server."""

    user: str
    home: str
    """From the root of the storage."""
    password_hash: str | None
    """None when the password is no longer accepted."""
    is_one_time: bool
    """The password allows nothing but to choose another."""
    keys: tuple[str, ...]
    is_enabled: bool
    quota_bytes: int
    quota_files: int | None = None
    """None for the installation's."""


@dataclass(frozen=True)
class Pending:
    """A change of an account that the SFTP backend has not been told yet."""

    entry_id: int
    user: str
    event: str
    quota_bytes: int | None
    quota_files: int | None
    created_at: str
    tries: int
    next_try_at: str
    last_error: str | None
    password_hash: str | None
    """Of a new user's one-time password."""


@dataclass(frozen=True)
class JobFolder:
    """The folder of a job, and what has become of it."""

    user: str
    name: str
    begun_at: datetime
    ended_at: datetime | None
    trashed_at: datetime | None
    trash_name: str | None
    purged_at: datetime | None
    size_bytes: int | None
    problem: str | None
    """What keeps the sweeper from moving or deleting it."""


# --- accounts of the built-in SFTP server -----------------------------------------------------------
def put_account(conn: Connection, account: SftpAccount) -> None:
    _upsert(
        conn,
        door_accounts,
        {
            "user_name": account.user,
            "home": account.home,
            "password_hash": account.password_hash,
            "is_one_time": account.is_one_time,
            "keys": json.dumps(account.keys),
            "is_enabled": account.is_enabled,
            "quota_bytes": account.quota_bytes,
            "quota_files": account.quota_files,
        },
    )


def get_account(conn: Connection, user: str) -> SftpAccount | None:
    row = conn.execute(sa.select(door_accounts).where(door_accounts.c.user_name == user)).first()
    if row is None:
        return None
    return SftpAccount(
        row.user_name,
        row.home,
        row.password_hash,
        bool(row.is_one_time),
        tuple(json.loads(row.keys)),
        bool(row.is_enabled),
        row.quota_bytes,
        row.quota_files,
    )


def change_account(conn: Connection, user: str, **fields: Any) -> bool:
    """fields: home, password_hash, is_one_time, keys, is_enabled, quota_bytes, quota_files. False if there is none."""
    if "keys" in fields:
        fields["keys"] = json.dumps(fields["keys"])
    return (
        conn.execute(sa.update(door_accounts).where(door_accounts.c.user_name == user).values(**fields)).rowcount == 1
    )


def delete_account(conn: Connection, user: str) -> bool:
    return conn.execute(sa.delete(door_accounts).where(door_accounts.c.user_name == user)).rowcount == 1


def put_fact(conn: Connection, name: str, value: str) -> None:
    _upsert(conn, door_facts, {"name": name, "value": value})


def facts(conn: Connection) -> dict[str, str]:
    return {row.name: row.value for row in conn.execute(sa.select(door_facts))}


# --- what the SFTP backend has to be told -----------------------------------------------------------
def add_pending(
    conn: Connection,
    user: str,
    event: str,
    quota_bytes: int | None,
    at: str,
    *,
    quota_files: int | None = None,
    password_hash: str | None = None,
) -> int:
    added = conn.execute(
        sa.insert(door_outbox).values(
            user_name=user,
            event=event,
            quota_bytes=quota_bytes,
            quota_files=quota_files,
            created_at=at,
            tries=0,
            next_try_at=at,
            password_hash=password_hash,
        )
    )
    return int(added.inserted_primary_key[0])  # type: ignore[index]


def pending(conn: Connection, *, user: str | None = None, limit: int = 1000) -> list[Pending]:
    """Oldest first."""
    statement = sa.select(door_outbox).where(door_outbox.c.done_at.is_(None)).order_by(door_outbox.c.entry_id)
    if user is not None:
        statement = statement.where(door_outbox.c.user_name == user)
    columns = Pending.__dataclass_fields__
    return [
        Pending(**{name: getattr(row, "user_name" if name == "user" else name) for name in columns})
        for row in conn.execute(statement.limit(limit))
    ]


def users_due(conn: Connection, at: str) -> list[str]:
    """Users whose oldest change is due: a later one of the same user waits for it."""
    oldest = (
        sa.select(sa.func.min(door_outbox.c.entry_id))
        .where(door_outbox.c.done_at.is_(None))
        .group_by(door_outbox.c.user_name)
    )
    statement = sa.select(door_outbox.c.user_name).where(
        door_outbox.c.entry_id.in_(oldest), door_outbox.c.next_try_at <= at
    )
    return [row.user_name for row in conn.execute(statement.order_by(door_outbox.c.entry_id))]


def has_entry(conn: Connection, entry_id: int) -> bool:
    return conn.execute(sa.select(door_outbox.c.entry_id).where(door_outbox.c.entry_id == entry_id)).first() is not None


def pending_done(conn: Connection, entry: Pending, at: str) -> None:
    """And delete those done before it: of each user the last is enough."""
    theirs = door_outbox.c.user_name == entry.user
    conn.execute(sa.delete(door_outbox).where(theirs, door_outbox.c.done_at.is_not(None)))
    conn.execute(
        sa.update(door_outbox)
        .where(door_outbox.c.entry_id == entry.entry_id)
        .values(done_at=at, last_error=None, password_hash=None)
    )


def pending_failed(conn: Connection, entry: Pending, *, next_try_at: str, error: str) -> None:
    conn.execute(
        sa.update(door_outbox)
        .where(door_outbox.c.entry_id == entry.entry_id)
        .values(tries=entry.tries + 1, next_try_at=next_try_at, last_error=error)
    )


# --- folders of jobs --------------------------------------------------------------------------------
def folder_begun(conn: Connection, user: str, name: str, at: datetime) -> None:
    """A job that begins again has its folder again."""
    _upsert(
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
    """The first end counts: reported again, the time does not begin anew."""
    insert = _insert(conn)(job_folders).values(user_name=user, name=name, begun_at=to_text(at), ended_at=to_text(at))
    conn.execute(
        insert.on_conflict_do_update(
            index_elements=["user_name", "name"], set_={"ended_at": to_text(at)}, where=job_folders.c.ended_at.is_(None)
        )
    )


def change_folder(conn: Connection, folder: JobFolder, **fields: Any) -> bool:
    """Unless it began again since it was read. fields: trashed_at, trash_name, purged_at, size_bytes, problem."""
    values = {name: _text(value) for name, value in fields.items()}
    c = job_folders.c
    same = (c.user_name == folder.user, c.name == folder.name, c.ended_at == _text(folder.ended_at))
    return conn.execute(sa.update(job_folders).where(*same).values(**values)).rowcount == 1


def lock_folders(conn: Connection, user: str, names: Sequence[str]) -> dict[str, JobFolder]:
    """By name. Nobody else changes them until the transaction ends."""
    theirs = (job_folders.c.user_name == user, job_folders.c.name.in_(names))
    statement = sa.select(job_folders).where(*theirs).order_by(job_folders.c.name).with_for_update()
    return {row.name: _folder(row) for row in conn.execute(statement)}


def folders_of(conn: Connection, user: str, names: Sequence[str] | None = None) -> list[JobFolder]:
    """Those that are not purged, by their begin."""
    statement = sa.select(job_folders).where(job_folders.c.user_name == user, job_folders.c.purged_at.is_(None))
    if names is not None:
        statement = statement.where(job_folders.c.name.in_(names))
    return [_folder(row) for row in conn.execute(statement.order_by(job_folders.c.begun_at))]


def folders_ended_before(conn: Connection, moment: datetime, *, is_trashed: bool) -> list[JobFolder]:
    """Not purged; by user, so that a home is opened once."""
    place = job_folders.c.trashed_at.is_not(None) if is_trashed else job_folders.c.trashed_at.is_(None)
    statement = sa.select(job_folders).where(
        job_folders.c.ended_at <= to_text(moment), job_folders.c.purged_at.is_(None), place
    )
    return [_folder(row) for row in conn.execute(statement.order_by(job_folders.c.user_name, job_folders.c.ended_at))]


# --- leases -----------------------------------------------------------------------------------------
def acquire_lease(conn: Connection, subject: str, holder: str, *, at: str, until: str) -> bool:
    """May this holder, and nobody else, change the subject now? Its own lease it can prolong.

    Args:
        at: The present time: a lease that ended before is anybody's.
        until: When the lease ends, unless it is released before.
    """
    is_free = sa.or_(leases.c.until < at, leases.c.holder == holder)
    insert = _insert(conn)(leases).values(subject=subject, holder=holder, until=until)
    acquired = insert.on_conflict_do_update(
        index_elements=["subject"], set_={"holder": holder, "until": until}, where=is_free
    )
    return conn.execute(acquired.returning(leases.c.subject)).first() is not None


def release_lease(conn: Connection, subject: str, holder: str) -> None:
    conn.execute(sa.delete(leases).where(leases.c.subject == subject, leases.c.holder == holder))


def _folder(row: Any) -> JobFolder:
    times = {name: _moment(getattr(row, name)) for name in ("ended_at", "trashed_at", "purged_at")}
    return JobFolder(
        user=row.user_name,
        name=row.name,
        begun_at=from_text(row.begun_at),
        trash_name=row.trash_name,
        size_bytes=row.size_bytes,
        problem=row.problem,
        **times,
    )


def _moment(text: str | None) -> datetime | None:
    return from_text(text) if text else None


def _text(value: Any) -> Any:
    return to_text(value) if isinstance(value, datetime) else value


def _insert(conn: Connection) -> Any:
    return sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert


def _upsert(conn: Connection, table: sa.Table, values: dict[str, Any]) -> None:
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in values.items() if name not in keys}
    conn.execute(_insert(conn)(table).values(**values).on_conflict_do_update(index_elements=keys, set_=others))
