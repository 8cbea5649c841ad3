"""Rows as values, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Row, Table

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
