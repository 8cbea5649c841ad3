"""Masks as polygons: traced, simplified, compared, drawn, and as JSON."""

from __future__ import annotations

import numpy as np
import pytest

from app.inference.agreement import agreement
from app.inference.annotations import COLOURS, draw
from app.inference.masks import MOST_POINTS, mask_overlap, outlines, simplify_polygon
from app.inference.polygons import Polygon, area_of, polygons_of
from app.inference.prediction import Box, Prediction
from app.inference.region import Crop


def square(x: float, y: float, side: float) -> Polygon:
    return ((x, y), (x + side, y), (x + side, y + side), (x, y + side))


def thing(*polygons: Polygon) -> Box:
    return Box(0, 0, 100, 100, 0.9, 0, (), polygons)


def test_an_outline_runs_between_inside_and_outside_and_parts_are_sorted_by_area() -> None:
    values = np.full((9, 12), -1.0)
    values[2:6, 1:5] = 3.0
    values[3:5, 8:10] = 1.0
    values[3, 3] = -1.0
    first, second = outlines(values, np.arange(12.0), np.arange(9.0))
    assert first.min(axis=0) == pytest.approx((0.25, 1.25)) and first.max(axis=0) == pytest.approx((4.75, 5.75))
    assert second.min(axis=0) == pytest.approx((7.5, 2.5)), "and the hole of the first is left out"


def test_what_reaches_the_border_ends_there_and_corners_that_touch_are_two_parts() -> None:
    (whole,) = outlines(np.ones((2, 3)), np.array([10.0, 20, 30]), np.array([5.0, 7]))
    assert {tuple(point) for point in whole.tolist()} >= {(10, 5), (30, 5), (30, 7), (10, 7)}
    assert len(outlines(np.array([[1.0, -1], [-1, 1]]), np.arange(2.0), np.arange(2.0))) == 2
    assert outlines(np.zeros((4, 4)), np.arange(4.0), np.arange(4.0)) == []


@pytest.mark.parametrize("seed", range(4))
def test_each_part_has_one_outline_half_a_pixel_around_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    values, bounds = np.full((40, 60), -1.0), []
    for left, top in ((0, 0), (20, 0), (40, 0), (0, 20), (20, 20), (40, 20)):
        x, y, width, height = (int(each) for each in random.integers((0, 0, 2, 2), (8, 8, 12, 12)))
        values[top + y : top + y + height, left + x : left + x + width] = 1.0
        low, high = (left + x - 0.5, top + y - 0.5), (left + x + width - 0.5, top + y + height - 0.5)
        bounds.append((max(0, low[0]), max(0, low[1]), *high))
    parts = outlines(values, np.arange(60.0), np.arange(40.0))
    assert sorted((*part.min(axis=0).tolist(), *part.max(axis=0).tolist()) for part in parts) == sorted(bounds)
    areas = [area_of(tuple(map(tuple, part.tolist()))) for part in parts]
    assert areas == sorted(areas, reverse=True)


def test_a_polygon_has_few_points_and_stays_near() -> None:
    angles = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    radius = 100 + 10 * np.sin(40 * angles)
    star = np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=1)
    few = simplify_polygon(star, 0.1)
    assert 10 < len(few) <= MOST_POINTS
    circle = simplify_polygon(100 * np.stack([np.cos(angles), np.sin(angles)], axis=1), 0.5)
    assert len(circle) < 50 and area_of(tuple(map(tuple, circle.tolist()))) == pytest.approx(np.pi * 1e4, rel=0.02)


@pytest.mark.parametrize(
    ("other", "share"),
    [((square(0, 0, 40),), 1), ((square(20, 0, 40),), 1 / 3), ((square(60, 60, 20),), 0), ((square(0, 0, 20),), 1 / 4)],
)
def test_masks_agree_by_what_they_share(other: tuple[Polygon, ...], share: float) -> None:
    mask = (square(0, 0, 40),)
    assert mask_overlap(mask, other) == pytest.approx(share, abs=0.02)
    one, another = Prediction(boxes=(thing(*mask),)), Prediction(boxes=(thing(*other),))
    assert agreement(one, another) == agreement(another, one) == pytest.approx(share, abs=0.02)
    assert agreement(one, Prediction(boxes=(thing(),))) == 1, "without a mask, boxes are compared as boxes"


def test_a_mask_is_filled_translucently() -> None:
    drawn = draw(np.zeros((100, 100, 3), np.uint8), [thing(square(40, 40, 20))])
    assert 0 < drawn[50, 50, 0] < int(COLOURS[0][1:3], 16) and not drawn[70, 70].any()


def test_the_json_has_polygons_beside_the_boxes_and_nothing_more_without_them() -> None:
    both = Prediction(boxes=(thing(square(1, 2, 3), square(9, 9, 1)), thing()))
    data = both.to_json()
    assert data["masks"] == [[[1, 2, 4, 2, 4, 5, 1, 5], [9, 9, 10, 9, 10, 10, 9, 10]], []]
    assert "keypoints" not in data and Prediction.from_json(data) == both
    assert "masks" not in Prediction(boxes=(thing(),)).to_json()
    for odd in ([[[1, 2, 3, 4, 5, 6, 7]], []], [[]]):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            Prediction.from_json({**data, "masks": odd})
    assert polygons_of([[1, 2, 3, 4]]) == ()


def test_a_mask_of_a_part_is_moved_with_its_box() -> None:
    (box,) = Crop(100, 50, 640, 480).in_source([thing(square(1, 2, 3))])
    assert box.mask == (square(101, 52, 3),)
