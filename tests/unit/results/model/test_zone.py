"""Areas and lines in the picture."""

from __future__ import annotations

from itertools import pairwise

import pytest

from app.results.model.rule import RULE_SET, Direction, RuleSet, Zone

YARD = Zone("yard", ((0.2, 0.2), (0.8, 0.2), (0.8, 0.8), (0.5, 0.5), (0.2, 0.8)))
GATE = Zone("gate", ((0.5, 0.2), (0.5, 0.8)))


@pytest.mark.parametrize(
    ("point", "is_inside"),
    [((0.3, 0.3), True), ((0.5, 0.45), True), ((0.5, 0.7), False), ((0.1, 0.3), False), ((0.9, 0.3), False)],
)
def test_an_area_may_have_a_dent(point: tuple[float, float], is_inside: bool) -> None:
    assert YARD.contains(point) is is_inside


@pytest.mark.parametrize(
    ("before", "after", "way"),
    [
        ((0.4, 0.5), (0.6, 0.5), Direction.LEFT),  # who looks down has the picture's right at the left hand
        ((0.6, 0.5), (0.4, 0.5), Direction.RIGHT),
        ((0.4, 0.5), (0.45, 0.5), None),
        ((0.4, 0.9), (0.6, 0.9), None),  # past its end
        ((0.4, 0.7), (0.6, 0.95), None),  # past its end, slantwise
    ],
)
def test_a_line_is_crossed_between_its_ends_in_a_direction(
    before: tuple[float, float], after: tuple[float, float], way: Direction | None
) -> None:
    assert GATE.crossed(before, after) is way


def test_who_stops_on_a_line_and_goes_on_crosses_it_once() -> None:
    steps = [(0.4, 0.5), (0.5, 0.5), (0.5, 0.55), (0.6, 0.5)]
    ways = [GATE.crossed(before, after) for before, after in pairwise(steps)]
    assert [way for way in ways if way] == [Direction.LEFT]


def test_it_is_stored_as_it_was() -> None:
    assert RULE_SET.read(RULE_SET.write(RuleSet((YARD,)))) == RuleSet((YARD,))
