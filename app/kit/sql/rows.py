"""Rows as dataclasses, and back; and inserts of rows that may exist already, for both databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, Executable, Row, Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")
T = TypeVar("T")


def from_row(dataclass: type[Value], row: Row[Any], /, **others: Any) -> Value:
    """Creates a dataclass from the columns with the names of its fields.

    Args:
        dataclass: the class.
        row: the selected row.
        others: the other fields, and those that differ from their column.
    """
    columns = row._mapping
    names = (field.name for field in fields(dataclass))
    return dataclass(**{name: columns[name] for name in names if name not in others and name in columns}, **others)


def first(conn: Connection, query: Executable, read: Callable[[Row[Any]], T]) -> T | None:
    """Returns what `read` makes of the first row of a query; None if it has none."""
    row = conn.execute(query).first()
    return None if row is None else read(row)


def count_rows(conn: Connection, table: Table, *where: ColumnElement[bool]) -> int:
    """Returns how many rows of a table meet all conditions."""
    return conn.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one()


def within(column: Column[str], since: str | None, until: str | None) -> list[ColumnElement[bool]]:
    """Returns the conditions of a period. None: it has no such end; `until` is excluded."""
    bounds = (None if since is None else column >= since), (None if until is None else column < until)
    return [bound for bound in bounds if bound is not None]


def row_of(table: Table, /, *values: object, **others: Any) -> dict[str, Any]:
    """Returns the columns of a row, for `values(…)`.

    Args:
        table: its table.
        values: objects with fields of the columns' names.
        others: the other columns, and those that differ from their field.
    """
    names = [column.name for column in table.columns]
    return {name: getattr(value, name) for value in values for name in names if hasattr(value, name)} | others


def insert_into(conn: Connection, table: sa.Table) -> Any:
    """Returns an insert that has `on_conflict_do_nothing` and `on_conflict_do_update`, which sqlalchemy.insert
    lacks."""
    return import_module(f"sqlalchemy.dialects.{conn.dialect.name}").insert(table)


def insert_new(conn: Connection, table: sa.Table, values: Mapping[str, Any]) -> bool:
    """Inserts a row; False: there is one with its key, or with another of its unique values."""
    insert = insert_into(conn, table).values(**values).on_conflict_do_nothing().returning(*table.primary_key)
    return conn.execute(insert).first() is not None


def upsert(conn: Connection, table: sa.Table, values: Mapping[str, Any]) -> None:
    """Inserts a row, or updates the one with its primary key.

    Args:
        conn: the caller's transaction.
        table: the table; its primary key is among the values.
        values: by column.
    """
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in values.items() if name not in keys}
    conn.execute(insert_into(conn, table).values(**values).on_conflict_do_update(index_elements=keys, set_=others))
