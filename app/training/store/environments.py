"""Documents of environments by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql.rows import count_rows, first, from_row, upsert
from app.training.model import TERMINAL
from app.training.store.tables import environments, tasks, to_values


@dataclass(frozen=True)
class EnvironmentRow:
    name: str
    document: str
    updated_at: str
    updated_by: str


def environments_by_name(conn: Connection) -> list[EnvironmentRow]:
    return [
        from_row(EnvironmentRow, row) for row in conn.execute(sa.select(environments).order_by(environments.c.name))
    ]


def environment_of(conn: Connection, name: str) -> EnvironmentRow | None:
    return first(conn, sa.select(environments).where(environments.c.name == name), partial(from_row, EnvironmentRow))


def put_environment(conn: Connection, name: str, document: str, *, at: str, by: str) -> None:
    """Add it, or write it anew.

    Args:
        document: Its YAML or JSON.
        at: ISO 8601 in UTC.
        by: The administrator.
    """
    upsert(conn, environments, {"name": name, "document": document, "updated_at": at, "updated_by": by})


def delete_environment(conn: Connection, name: str) -> None:
    conn.execute(sa.delete(environments).where(environments.c.name == name))


def count_unended_in(conn: Connection, name: str) -> int:
    """Tasks of an environment that wait or run."""
    theirs = (tasks.c.environment == name, tasks.c.state.not_in(to_values(TERMINAL)))
    return count_rows(conn, tasks, *theirs)
