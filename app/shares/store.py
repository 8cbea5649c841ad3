"""Stores links in SQL, each with the hash of its key."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql import metadata
from app.kit.sql.rows import first
from app.shares.model import Share

TIME = sa.String(32)
shares = sa.Table(
    "shares",
    metadata,
    sa.Column("share_id", sa.String(32), primary_key=True),
    sa.Column("user_name", sa.String(32), sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("job_id", sa.String(36), nullable=False, index=True),
    sa.Column("key_hash", sa.String(64), nullable=False),
    sa.Column("label", sa.String(100), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("expires_at", TIME, nullable=False),
    sa.Column("revoked_at", TIME),
    sa.Column("last_used_at", TIME),
)


def add(conn: Connection, share: Share) -> None:
    values = dict(vars(share))
    conn.execute(sa.insert(shares).values(user_name=values.pop("owner"), **values))


def get(conn: Connection, share_id: str) -> Share | None:
    return first(conn, sa.select(shares).where(shares.c.share_id == share_id), _share_of)


def of_job(conn: Connection, owner: str, job_id: str) -> list[Share]:
    """Returns the links to a job, the newest first."""
    where = (shares.c.user_name == owner, shares.c.job_id == job_id)
    ordered = sa.select(shares).where(*where).order_by(shares.c.created_at.desc(), shares.c.share_id)
    return [_share_of(row) for row in conn.execute(ordered)]


def revoke(conn: Connection, owner: str, job_id: str, share_id: str, at: str) -> bool:
    """Revoke a link.

    Args:
        at: now, text in ISO 8601.

    Returns:
        False if there is no valid one.
    """
    c = shares.c
    where = (c.share_id == share_id, c.user_name == owner, c.job_id == job_id, c.revoked_at.is_(None))
    return conn.execute(sa.update(shares).where(*where).values(revoked_at=at)).rowcount == 1


def remove(conn: Connection, share_id: str) -> None:
    conn.execute(sa.delete(shares).where(shares.c.share_id == share_id))


def note_use(conn: Connection, share_id: str, at: str) -> None:
    conn.execute(sa.update(shares).where(shares.c.share_id == share_id).values(last_used_at=at))


def _share_of(row: Row[Any]) -> Share:
    values = dict(row._mapping)
    return Share(owner=values.pop("user_name"), **values)
