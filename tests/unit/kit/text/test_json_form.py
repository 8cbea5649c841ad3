"""A dataclass as JSON: its fields in their order, and back as it was."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import pytest

from app.kit.text.json_form import FormError, JsonForm


class Side(StrEnum):
    LEFT = "left"


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True)
class Shape:
    name: str
    points: tuple[Point, ...]
    side: Side = Side.LEFT
    notes: dict[str, object] = field(default_factory=dict)
    parent: str | None = None
    way: Literal["in", "out"] = "in"
    corners: int = 0
    is_closed: bool = True
    span: tuple[float, float] = (0.0, 1.0)


SHAPE = JsonForm(Shape)
BOX = Shape("box", (Point(0.5, 1e-9), Point(1.0, 2.0)), notes={"b": [1, None], "a": True})


def test_it_is_written_field_by_field() -> None:
    assert json.dumps(SHAPE.write(BOX)) == (
        '{"name": "box", "points": [{"x": 0.5, "y": 1e-09}, {"x": 1.0, "y": 2.0}], "side": "left", '
        '"notes": {"b": [1, null], "a": true}, "parent": null, "way": "in", "corners": 0, "is_closed": true, '
        '"span": [0.0, 1.0]}'
    )


def test_it_is_read_as_it_was_and_what_a_newer_version_adds_is_passed_over() -> None:
    assert SHAPE.read(json.loads(json.dumps({**SHAPE.write(BOX), "colour": "red"}))) == BOX


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "is to be an object"),
        ([], "is to be an object"),
        ({}, "name: is missing"),
        ({"name": 1}, "name: is to be a text"),
        ({"name": "a"}, "points: is missing"),
        ({"name": "a", "points": 1}, "points: is to be an array"),
        ({"name": "a", "points": [{"x": 1}]}, "points.0.y: is missing"),
        ({"name": "a", "points": [{"x": True, "y": 1}]}, "points.0.x: is to be a number"),
        ({"name": "a", "points": [{"x": math.nan, "y": 1}]}, "points.0.x: is to be a finite number"),
        ({"name": "a", "points": [{"x": 10**400, "y": 1}]}, "points.0.x: is to be a finite number"),
        ({**SHAPE.write(BOX), "side": "up"}, "side: is to be left"),
        ({**SHAPE.write(BOX), "way": "up"}, "way: is to be in, out"),
        ({**SHAPE.write(BOX), "notes": {1: 2}}, "notes: is to be a text"),
        ({**SHAPE.write(BOX), "notes": []}, "notes: is to be an object"),
        ({**SHAPE.write(BOX), "parent": 1}, "parent: is to be a text"),
        ({**SHAPE.write(BOX), "corners": 1.5}, "corners: is to be a whole number"),
        ({**SHAPE.write(BOX), "is_closed": 1}, "is_closed: is to be true or false"),
        ({**SHAPE.write(BOX), "span": [1]}, "span: is to have 2 values"),
    ],
    ids=str,
)
def test_another_form_is_refused_by_its_place(data: object, message: str) -> None:
    with pytest.raises(FormError) as caught:
        SHAPE.read(data)
    assert str(caught.value) == message


def test_a_number_is_of_its_fields_type() -> None:
    read = SHAPE.read({"name": "a", "points": [{"x": 1, "y": 2}], "corners": 4.0})
    assert (repr(read.points[0]), repr(read.corners)) == ("Point(x=1.0, y=2.0)", "4")
