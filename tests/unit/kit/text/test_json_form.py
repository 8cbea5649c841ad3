"""A dataclass as JSON: its fields in their order, and back as it was."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from app.kit.text.json_form import JsonForm


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


SHAPE = JsonForm(Shape)
BOX = Shape("box", (Point(0.5, 1e-9), Point(1.0, 2.0)), notes={"b": [1, None], "a": True})


def test_it_is_written_field_by_field() -> None:
    assert json.dumps(SHAPE.write(BOX)) == (
        '{"name": "box", "points": [{"x": 0.5, "y": 1e-09}, {"x": 1.0, "y": 2.0}], "side": "left", '
        '"notes": {"b": [1, null], "a": true}, "parent": null}'
    )


def test_it_is_read_as_it_was_and_what_a_newer_version_adds_is_passed_over() -> None:
    assert SHAPE.read(json.loads(json.dumps({**SHAPE.write(BOX), "colour": "red"}))) == BOX


@pytest.mark.parametrize(
    "data", [None, [], {}, {"name": "a"}, {"name": "a", "points": 1}, {**SHAPE.write(BOX), "side": "up"}]
)
def test_another_form_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="validation error"):
        SHAPE.read(data)
