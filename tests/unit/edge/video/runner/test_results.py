"""Boxes that follow what lies in them."""

from __future__ import annotations

import numpy as np
import pytest

from app.edge.video.runner.results import Tracker
from app.inference.prediction import Picture

GROUND = np.repeat(np.random.default_rng(1).integers(90, 130, (180, 320, 1), np.uint8), 3, axis=2)
THING = np.repeat(np.random.default_rng(2).integers(0, 255, (40, 40, 1), np.uint8), 3, axis=2)


def picture(x: int, y: int, scale: int = 1) -> Picture:
    drawing = GROUND.copy()
    drawing[y : y + 40, x : x + 40] = THING
    return drawing.repeat(scale, axis=0).repeat(scale, axis=1)


def followed(places: list[tuple[int, int]], scale: int = 1) -> list[list[float]]:
    tracker = Tracker()
    x, y = places[0]
    tracker.begin(picture(x, y, scale), [[x, y, x + 40, y + 40]], (320, 180))
    return [tracker.follow(picture(*place, scale))[0] for place in places[1:]]


def test_a_box_goes_with_its_thing() -> None:
    places = [(50 + 3 * n, 60 + n) for n in range(6)]
    for place, box in zip(places[1:], followed(places), strict=True):
        assert box[:2] == pytest.approx(place, abs=1.5)
        assert (box[2] - box[0], box[3] - box[1]) == pytest.approx((40, 40))


def test_boxes_are_in_the_pixels_of_the_picture_that_was_sent() -> None:
    assert followed([(50, 60), (56, 60)], scale=3)[0][:2] == pytest.approx((56, 60), abs=1.5)


def test_what_stands_still_stays() -> None:
    assert followed([(50, 60), (50, 60)])[0] == pytest.approx([50, 60, 90, 100], abs=0.2)


def test_a_box_that_cannot_be_followed_stays() -> None:
    tracker = Tracker()
    tracker.begin(GROUND, [[50, 60, 90, 100], [400, 300, 410, 305], [3, 3, 3, 3]], (320, 180))
    noise = np.random.default_rng(7).integers(0, 255, GROUND.shape, np.uint8)
    boxes = tracker.follow(noise)
    assert boxes[0] == pytest.approx([50, 60, 90, 100], abs=0.01)
    assert boxes[1] == pytest.approx([400, 300, 410, 305])


def test_a_picture_of_another_size_moves_nothing() -> None:
    tracker = Tracker()
    tracker.begin(GROUND, [[1, 2, 30, 40]], (320, 180))
    assert tracker.follow(GROUND[:90]) == [[1, 2, 30, 40]]
    assert Tracker().follow(GROUND) == []
