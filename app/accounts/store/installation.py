"""Facts of the installation."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from app.accounts.store.tables import installation


def fact(conn: Connection, name: str) -> str | None:
    """What the installation knows under this name."""
    value: str | None = conn.scalar(sa.select(installation.c.value).where(installation.c.name == name))
    return value


def remember_fact(conn: Connection, name: str, value: str) -> None:
    conn.execute(sa.delete(installation).where(installation.c.name == name))
    conn.execute(sa.insert(installation).values(name=name, value=value))
