"""Key points on their way: alike or not, drawn, and as JSON."""

from __future__ import annotations

import numpy as np
import pytest

from app.inference.agreement import agreement
from app.inference.annotations import draw
from app.inference.keypoints import COCO_DEVIATIONS, COCO_SKELETON, keypoint_similarity
from app.inference.prediction import Box, Figure, Prediction
from app.inference.region import Crop


def person(shift: float = 0.0, score: float = 0.9) -> Box:
    points = tuple((10.0 + 5 * at + shift, 20.0 + 3 * at, score) for at in range(17))
    return Box(0, 0, 100, 80, 0.9, 0, points)


@pytest.mark.parametrize("count", [5, 17])
def test_similarity_is_that_of_coco(count: int) -> None:
    random = np.random.default_rng(count)
    one, other = random.uniform(0, 40, (2, count, 3)) * (1, 1, 1 / 40)
    area = 3000.0
    sigmas = np.array(COCO_DEVIATIONS if count == 17 else [1 / count] * count)
    distances = ((one[:, :2] - other[:, :2]) ** 2).sum(axis=1)
    shares = np.exp(-distances / (2 * sigmas) ** 2 / (area * 0.53 + np.spacing(1)) / 2)
    visible = np.maximum(one[:, 2], other[:, 2]) >= 0.5
    assert 0 < visible.sum() < count
    similarity = keypoint_similarity(one.tolist(), other.tolist(), area)
    assert similarity == pytest.approx(shares[visible].mean())


def test_what_cannot_be_seen_is_not_compared_and_other_numbers_of_points_differ() -> None:
    assert keypoint_similarity([(0, 0, 0.1)], [(90, 9, 0.2)], 100.0) == 1
    assert keypoint_similarity([(0, 0, 0.9)], [], 100.0) == 0
    assert keypoint_similarity([(0, 0, 0.9)], [(1, 1, 0.9)], 0.0) == 0, "a box without area"


def test_answers_with_the_same_boxes_agree_as_far_as_their_key_points_are_alike() -> None:
    one, near, far = (Prediction(boxes=(person(shift),)) for shift in (0, 2, 60))
    assert agreement(one, one) == 1
    assert 0.5 < agreement(one, near) == agreement(near, one) < 1
    assert agreement(one, far) < 0.1
    without = Prediction(boxes=(Box(0, 0, 100, 80, 0.9),))
    assert agreement(one, without) == 1, "boxes of a model without key points are compared as boxes"


def test_lines_join_the_visible_points_of_coco_alone() -> None:
    figure = person().figure
    assert (len(figure.points), len(figure.lines)) == (17, len(COCO_SKELETON))
    assert figure.lines[0] == (10, 20, 15, 23), "from the nose to the left eye"
    assert person(score=0.4).figure == Box(0, 0, 1, 1, 1.0).figure == Figure((), (), ())
    assert Box(0, 0, 9, 9, 0.9, 0, ((1, 2, 0.9), (3, 4, 0.2))).figure == Figure(((1, 2),), (), ())


def test_points_and_lines_are_drawn_in_the_colour_of_the_class() -> None:
    points = ((30.0, 20.0, 0.9), (70.0, 20.0, 0.9), *[(0.0, 0.0, 0.0)] * 15)
    black = np.zeros((100, 100, 3), np.uint8)
    drawn = draw(black, [Box(5, 5, 95, 95, 0.9, 0, points)])
    assert drawn[20, 50].tolist() == [0xE6, 0x19, 0x4B] and drawn[20, 30].tolist() == [255, 255, 255]
    plain = draw(black, [Box(5, 5, 95, 95, 0.9)])
    assert not plain[20, 50].any(), "without key points there is only the box"


def test_the_json_has_key_points_beside_the_boxes_and_nothing_more_without_them() -> None:
    both = Prediction(boxes=(person(), Box(1, 2, 3, 4, 0.7, 1)))
    data = both.to_json()
    assert data["boxes"][0] == [0, 0, 100, 80, 0.9, 0] and data["keypoints"][0][1] == [15, 23, 0.9]
    assert data["keypoints"][1] == []
    assert Prediction.from_json(data) == both
    assert set(Prediction(boxes=(Box(1, 2, 3, 4, 0.7),)).to_json()) == {"boxes", "probabilities", "ms", "runtime"}
    with pytest.raises(ValueError, match="shorter"):
        Prediction.from_json({**data, "keypoints": data["keypoints"][:1]})


def test_key_points_of_a_part_are_moved_with_their_box() -> None:
    (box,) = Crop(100, 50, 640, 480).in_source([person()])
    assert (box.x1, box.y1) == (100, 50) and box.keypoints[0] == (110, 70, 0.9)
