"""Rows become values, and values rows, by the names that both have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pytest
import sqlalchemy as sa

from app.kit.sql.rows import from_row, row_of, within


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Thing:
    name: str
    color: Color
    size: int = 0
    kind: str = "usual"


things = sa.Table(
    "things",
    sa.MetaData(),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("color", sa.String),
    sa.Column("size", sa.Integer),
    sa.Column("owner", sa.String),
)


def test_a_value_comes_back_as_it_was_stored() -> None:
    engine = sa.create_engine("sqlite://")
    thing = Thing("ball", Color.RED, 3)
    with engine.begin() as conn:
        things.create(conn)
        conn.execute(sa.insert(things).values(row_of(things, thing, color=thing.color.value, owner="ann")))
        row = conn.execute(sa.select(things)).one()
    assert row._asdict() == {"name": "ball", "color": "red", "size": 3, "owner": "ann"}
    assert from_row(Thing, row, color=Color(row.color)) == thing
    assert from_row(Thing, row, color=Color.RED, kind="odd", size=4) == Thing("ball", Color.RED, 4, "odd")


def test_of_several_values_the_last_has_a_column() -> None:
    assert row_of(things, Thing("a", Color.RED, 1), Thing("b", Color.RED, 2))["name"] == "b"


def test_a_field_without_a_column_is_to_be_given() -> None:
    with sa.create_engine("sqlite://").connect() as conn:
        row = conn.execute(sa.text("select 'ball' as name")).one()
    with pytest.raises(TypeError, match="color"):
        from_row(Thing, row)


def test_a_period_may_be_open_and_its_end_is_excluded() -> None:
    assert within(things.c.name, None, None) == []
    begin, end = within(things.c.name, "a", "c")
    assert (str(begin), str(end)) == ("things.name >= :name_1", "things.name < :name_1")
