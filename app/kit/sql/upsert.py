"""Inserting what may be there already, in the words of either database."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection


def insert_into(conn: Connection, table: sa.Table) -> Any:
    """An insert that knows `on_conflict_do_nothing` and `on_conflict_do_update`: sqlalchemy.insert has neither."""
    return import_module(f"sqlalchemy.dialects.{conn.dialect.name}").insert(table)


def upsert(conn: Connection, table: sa.Table, values: Mapping[str, Any]) -> None:
    """Insert a row, or change the one with its primary key to these values.

    Args:
        conn: the caller's transaction.
        table: whose primary key is among the values.
        values: by column.
    """
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in values.items() if name not in keys}
    conn.execute(insert_into(conn, table).values(**values).on_conflict_do_update(index_elements=keys, set_=others))
