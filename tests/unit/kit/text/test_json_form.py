"""A dataclass as JSON: its fields in their order, and back as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import pytest

from app.kit.text.json_form import FormError, JsonDocument, JsonForm
from tests.harness.paths import REPOSITORY


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
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise FormError(("weight",), "is above 0")


SHAPE = JsonForm(Shape)
BOX = Shape("box", (Point(0.5, 1e-9), Point(1.0, 2.0)), notes={"b": [1, None], "a": True})


def test_it_is_written_field_by_field() -> None:
    assert json.dumps(SHAPE.write(BOX)) == (
        '{"name": "box", "points": [{"x": 0.5, "y": 1e-09}, {"x": 1.0, "y": 2.0}], "side": "left", '
        '"notes": {"b": [1, null], "a": true}, "parent": null, "way": "in", "corners": 0, "is_closed": true, '
        '"span": [0.0, 1.0], "weight": 1.0}'
    )


def test_what_is_written_compares_equal_to_what_is_read_from_json() -> None:
    assert SHAPE.write(BOX) == json.loads(json.dumps(SHAPE.write(BOX)))


def test_it_is_read_as_it_was_and_what_a_newer_version_adds_is_passed_over() -> None:
    assert SHAPE.read(json.loads(json.dumps({**SHAPE.write(BOX), "colour": "red"}))) == BOX


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "Expected `object`, got `null`"),
        ([], "Expected `object`, got `array`"),
        ({}, "Object missing required field `name`"),
        ({"name": 1}, "name: Expected `str`, got `int`"),
        ({"name": "a", "points": 1}, "points: Expected `array`, got `int`"),
        ({"name": "a", "points": [{"x": 1}]}, "points.0: Object missing required field `y`"),
        ({"name": "a", "points": [{"x": True, "y": 1}]}, "points.0.x: Expected `float`, got `bool`"),
        ({"name": "a", "points": [{"x": 10**400, "y": 1}]}, "points.0.x: Number out of range"),
        ({**SHAPE.write(BOX), "side": "up"}, "side: Invalid enum value 'up'"),
        ({**SHAPE.write(BOX), "way": "up"}, "way: Invalid enum value 'up'"),
        ({**SHAPE.write(BOX), "notes": {1: 2}}, "notes: Expected `str`, got `int`"),
        ({**SHAPE.write(BOX), "notes": []}, "notes: Expected `object`, got `array`"),
        ({**SHAPE.write(BOX), "parent": 1}, "parent: Expected `str | null`, got `int`"),
        ({**SHAPE.write(BOX), "corners": 1.5}, "corners: Expected `int`, got `float`"),
        ({**SHAPE.write(BOX), "is_closed": 1}, "is_closed: Expected `bool`, got `int`"),
        ({**SHAPE.write(BOX), "span": [1]}, "span: Expected `array` of length 2, got 1"),
        ({**SHAPE.write(BOX), "weight": -1}, "weight: is above 0"),
    ],
    ids=str,
)
def test_another_form_is_refused_by_its_place(data: object, message: str) -> None:
    with pytest.raises(FormError) as caught:
        SHAPE.read(data)
    assert str(caught.value) == message


def test_a_number_is_of_its_fields_type() -> None:
    read = SHAPE.read({"name": "a", "points": [{"x": 1, "y": 2}]})
    assert repr(read.points[0]) == "Point(x=1.0, y=2.0)"


@dataclass(frozen=True)
class Drawing(JsonDocument):
    shapes: tuple[Shape, ...] = ()


def test_a_document_has_its_form_as_methods() -> None:
    drawing = Drawing((BOX,))
    assert drawing.to_json() == {"shapes": [SHAPE.write(BOX)]}
    assert Drawing.from_json(drawing.to_json()) == drawing and Drawing.from_json({}) == Drawing()
    with pytest.raises(FormError) as refused:
        Drawing.from_json({"shapes": [{"name": 1}]})
    assert refused.value.place == ("shapes", "0", "name")


MANY_READERS = """
import sys, threading
from dataclasses import make_dataclass
from app.kit.text.json_form import JsonForm

sys.setswitchinterval(1e-6)
data = {f"f{i}": i for i in range(30)}
for number in range(50):
    inner = make_dataclass("Inner", [(name, "int") for name in data])
    outer = make_dataclass("Outer", [("one", inner), ("several", list[inner])])
    together = threading.Barrier(6)

    def read():
        together.wait()
        assert JsonForm(outer).read({"one": data, "several": [data]}).several[0].f29 == 29

    readers = [threading.Thread(target=read) for _ in range(6)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
print("all were read")
"""


@pytest.mark.slow
def test_threads_that_read_a_new_kind_at_once_do_not_crash_the_process() -> None:
    command = [sys.executable, "-c", MANY_READERS]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all were read\n"), done.stderr
