"""Rows as values, and back; and inserting what may be there already, in the words of either database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")


def from_row(dataclass: type[Value], row: Row[Any], /, **others: Any) -> Value:
    """A value of the columns that have the names of its fields.

    Args:
        dataclass: of the value.
        row: what was selected.
        others: the other fields, and those that are something else than what their column holds.
    """
    columns = row._mapping
    names = (field.name for field in fields(dataclass))
    return dataclass(**{name: columns[name] for name in names if name not in others and name in columns}, **others)


def row_of(table: Table, /, *values: object, **others: Any) -> dict[str, Any]:
    """The columns of a row, for `values(…)`.

    Args:
        table: its table.
        values: have fields of the columns' names.
        others: the other columns, and those that hold something else than their field.
    """
    names = [column.name for column in table.columns]
    return {name: getattr(value, name) for value in values for name in names if hasattr(value, name)} | others


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
