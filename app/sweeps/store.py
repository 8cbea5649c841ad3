"""Stores sweeps in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.errors import ModelmillError
from app.kit.sql import metadata, note_change
from app.kit.sql.pages import page_of
from app.kit.sql.rows import count_rows, first, from_row
from app.sweeps.model import Entry, EntryState, Sweep

TIME = sa.String(32)
sweeps = sa.Table(
    "sweeps",
    metadata,
    sa.Column("sweep_id", sa.String(32), primary_key=True),
    sa.Column("user_name", sa.String(32), sa.ForeignKey("users.name", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("no_cache", sa.Boolean, nullable=False, server_default=sa.false()),
)
entries = sa.Table(
    "sweep_entries",
    metadata,
    sa.Column("sweep_id", sa.String(32), sa.ForeignKey("sweeps.sweep_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("job_id", sa.String(36), nullable=False, unique=True),
    sa.Column("model_name", sa.String(200), nullable=False),
    sa.Column("model_key", sa.String(512), nullable=False),
    sa.Column("quant_key", sa.String(512), nullable=False),
    sa.Column("variant", sa.String(200), nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("result", sa.Text),
)


def sweep_key(sweep_id: str) -> str:
    """Key under which changes of the sweep, but not of its jobs, are announced to open pages."""
    return f"sweep:{sweep_id}"


def add(conn: Connection, sweep: Sweep, parts: Sequence[Entry]) -> None:
    values = {**vars(sweep), "tags": json.dumps(sweep.tags), "user_name": sweep.owner}
    del values["owner"]
    conn.execute(sa.insert(sweeps).values(**values))
    conn.execute(
        sa.insert(entries),
        [
            {**vars(part), "options": json.dumps(part.options), "state": part.state.value, "result": None}
            for part in parts
        ],
    )


def get(conn: Connection, owner: str, sweep_id: str) -> Sweep | None:
    where = (sweeps.c.sweep_id == sweep_id, sweeps.c.user_name == owner)
    return first(conn, sa.select(sweeps).where(*where), _sweep_of)


def page(conn: Connection, owner: str, *, before: tuple[str, str] | None, limit: int) -> list[Sweep]:
    """Returns sweeps, the newest first.

    Args:
        before: created_at and sweep_id of the last one before; None for the first page.
    """
    c = sweeps.c
    query = sa.select(sweeps).where(c.user_name == owner)
    return [_sweep_of(row) for row in conn.execute(page_of(query, (c.created_at, c.sweep_id), before, limit))]


def count(conn: Connection, owner: str) -> int:
    return count_rows(conn, sweeps, sweeps.c.user_name == owner)


def states(conn: Connection, sweep_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Returns for each sweep how many of its entries are in each state."""
    c = entries.c
    counted = sa.select(c.sweep_id, c.state, sa.func.count()).group_by(c.sweep_id, c.state)
    counts: dict[str, dict[str, int]] = {sweep_id: {} for sweep_id in sweep_ids}
    for sweep_id, state, number in conn.execute(counted.where(c.sweep_id.in_(sweep_ids))):
        counts[sweep_id][state] = int(number)
    return counts


def entries_of(conn: Connection, sweep_id: str) -> list[Entry]:
    query = sa.select(entries).where(entries.c.sweep_id == sweep_id).order_by(entries.c.position)
    return [_entry_of(row) for row in conn.execute(query)]


def pending(conn: Connection, most: int) -> list[tuple[Sweep, Entry]]:
    """Returns entries to submit, the oldest sweep first, at most this many of each user, so that nobody waits behind
    others."""
    order = (sweeps.c.created_at, sweeps.c.sweep_id, entries.c.position)
    number = sa.func.row_number().over(partition_by=sweeps.c.user_name, order_by=order).label("number")
    of_sweep = [column for column in sweeps.c if column.name not in entries.c]
    waiting = (
        sa.select(*entries.c, *of_sweep, number)
        .join(sweeps, sweeps.c.sweep_id == entries.c.sweep_id)
        .where(entries.c.state == EntryState.PENDING.value)
        .subquery()
    )
    c = waiting.c
    columns = [column for column in c if column.name != "number"]
    query = sa.select(*columns).where(c.number <= most).order_by(c.created_at, c.sweep_id, c.position)
    return [(_sweep_of(row), _entry_of(row)) for row in conn.execute(query)]


def change(conn: Connection, entry: Entry, state: EntryState, error: ModelmillError | None = None) -> bool:
    """Moves an entry from PENDING to another state.

    Args:
        error: why it is refused.

    Returns:
        False if it is no longer PENDING; it then stays as it is.
    """
    note_change(conn, sweep_key(entry.sweep_id))
    c = entries.c
    where = (c.sweep_id == entry.sweep_id, c.position == entry.position, c.state == EntryState.PENDING.value)
    values: dict[str, Any] = {"state": state.value}
    if error is not None:
        result = {"status": state.value, "problem": error.text, "error": error.to_dict()}
        values |= {"problem": error.text, "result": json.dumps(result)}
    return conn.execute(sa.update(entries).where(*where).values(**values)).rowcount == 1


def note_result(conn: Connection, job_id: str, result: Mapping[str, Any]) -> None:
    """Stores how the job of an entry ended."""
    values = {"state": EntryState.ENDED.value, "result": json.dumps(result)}
    conn.execute(sa.update(entries).where(entries.c.job_id == job_id).values(**values))


def delete(conn: Connection, owner: str, sweep_id: str) -> bool:
    where = (sweeps.c.sweep_id == sweep_id, sweeps.c.user_name == owner)
    return conn.execute(sa.delete(sweeps).where(*where)).rowcount == 1


def _sweep_of(row: Row[Any]) -> Sweep:
    return Sweep(row.sweep_id, row.user_name, row.name, tuple(json.loads(row.tags)), row.created_at, row.no_cache)


def _entry_of(row: Row[Any]) -> Entry:
    result = json.loads(row.result) if row.result else None
    return from_row(Entry, row, options=json.loads(row.options), state=EntryState(row.state), result=result)
