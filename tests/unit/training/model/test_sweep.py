"""The points of a sweep."""

from __future__ import annotations

import math

from app.training.model.sweep import Interval, draw_points, grid, label_of, size_of


def test_a_grid_has_every_combination_once() -> None:
    vary = {"a": [1, 2], "b": ["x", "y", None]}
    points = grid(vary)
    assert (len(points), size_of(vary)) == (6, 6)
    assert points[:3] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": None}]


def test_points_are_drawn_the_same_for_the_same_seed_and_none_twice() -> None:
    vary = {"a": Interval(1e-6, 1e-2, is_log=True), "b": [1, 2]}
    points = draw_points(vary, 20, seed=1)
    assert points == draw_points(vary, 20, seed=1) != draw_points(vary, 20, seed=2)
    assert len({tuple(point.items()) for point in points}) == 20 and math.isinf(size_of(vary))
    assert all(1e-6 <= point["a"] <= 1e-2 for point in points)  # type: ignore[operator]


def test_orders_of_magnitude_are_as_likely_as_each_other() -> None:
    points = draw_points({"a": Interval(1e-6, 1, is_log=True)}, 300, seed=3)
    assert 100 < sum(point["a"] < 1e-3 for point in points) < 200  # type: ignore[operator]


def test_of_few_values_no_more_are_drawn_than_there_are() -> None:
    assert sorted(point["a"] for point in draw_points({"a": [1, 2, 3]}, 10, seed=0)) == [1, 2, 3]  # type: ignore[type-var]


def test_a_point_is_named_by_the_last_parts_of_its_fields() -> None:
    assert label_of({"overrides.optim.lr": 1e-6, "total_epochs": 3}) == "lr=1e-06 total_epochs=3"
