"""Average precision, against figures made by hand and a plain computation beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from app.conversion.toolchains.host.labeled_quality import AveragePrecision
from app.conversion.toolchains.samples.labels import LabeledBox
from app.inference.prediction import Box

SIDE = 10.0


def label(x: float, *, of: int = 0, is_crowd: bool = False) -> LabeledBox:
    return LabeledBox((x, 0.0, x + SIDE, SIDE), of, is_crowd)


def box(x: float, score: float, *, of: int = 0) -> Box:
    return Box(x, 0.0, x + SIDE, SIDE, score, of)


def values(*pictures: tuple[Sequence[LabeledBox], Sequence[Box]]) -> tuple[float, float] | None:
    precision = AveragePrecision()
    for truth, boxes in pictures:
        precision.add(truth, boxes)
    return precision.values()


def test_what_is_all_right_is_1_and_what_finds_nothing_is_0() -> None:
    truth = [label(0), label(50)]
    assert values((truth, [box(50, 0.9), box(0, 0.8)])) == pytest.approx((1.0, 1.0))
    assert values((truth, [])) == (0.0, 0.0)
    assert values((truth, [box(100, 0.9)])) == (0.0, 0.0)


def test_without_a_label_there_is_nothing_to_be_right_about() -> None:
    assert values(([], [box(0, 0.9)])) is None
    assert values(([label(0, is_crowd=True)], [])) is None


def test_a_wrong_box_before_a_right_one_costs_half_and_after_it_nothing() -> None:
    assert values(([label(0)], [box(50, 0.9), box(0, 0.8)])) == pytest.approx((0.5, 0.5))
    assert values(([label(0)], [box(0, 0.9), box(50, 0.8)])) == pytest.approx((1.0, 1.0))
    assert values(([label(0)], [box(0, 0.9), box(0, 0.8)])) == pytest.approx((1.0, 1.0)), "the second of one label"


def test_half_of_the_labels_are_51_of_101_recalls() -> None:
    assert values(([label(0), label(50)], [box(0, 0.9)])) == pytest.approx((51 / 101, 51 / 101))


def test_a_box_counts_up_to_the_overlap_that_it_has() -> None:
    """Two of ten pixels beside it: an overlap of 8/12, which four of the ten levels take."""
    assert values(([label(0)], [box(2, 0.9)])) == pytest.approx((0.4, 1.0))


def test_classes_count_alike() -> None:
    many = [label(x * 20) for x in range(4)]
    boxes = [box(x * 20, 0.9) for x in range(4)]
    assert values(([*many, label(0, of=1)], boxes)) == pytest.approx((0.5, 0.5))


def test_boxes_in_a_crowd_are_neither_right_nor_wrong() -> None:
    crowd = LabeledBox((40.0, 0.0, 200.0, SIDE), 0, is_crowd=True)
    boxes = [box(50, 0.9), box(100, 0.9), box(0, 0.8)]
    assert values(([crowd, label(0)], boxes)) == pytest.approx((1.0, 1.0))


def test_on_random_boxes_it_is_what_a_plain_computation_says() -> None:
    random = np.random.default_rng(5)
    pictures = []
    for _ in range(12):
        places = random.uniform(0, 300, 5)
        truth = [label(float(x)) for x in places]
        near = [box(float(x + random.normal(0, 2)), float(random.uniform())) for x in places if random.uniform() < 0.8]
        far = [box(float(random.uniform(400, 900)), float(random.uniform())) for _ in range(3)]
        pictures.append((truth, near + far))
    measured = values(*pictures)
    assert measured is not None and measured[1] == pytest.approx(plain(pictures, 0.5), abs=1e-9)
    assert measured[0] == pytest.approx(
        np.mean([plain(pictures, level / 100) for level in range(50, 100, 5)]), abs=1e-9
    )


def plain(pictures: Sequence[tuple[Sequence[LabeledBox], Sequence[Box]]], least: float) -> float:
    """One class, no crowds, at one overlap."""
    hits, count = [], sum(len(truth) for truth, _ in pictures)
    for truth, boxes in pictures:
        left = [each.corners[0] for each in truth]
        for each in sorted(boxes, key=lambda one: -one.score):
            shares = [max(0.0, SIDE - abs(each.x1 - x)) / (2 * SIDE - max(0.0, SIDE - abs(each.x1 - x))) for x in left]
            best = int(np.argmax(shares)) if shares else -1
            is_right = best >= 0 and shares[best] >= least
            if is_right:
                left.pop(best)
            hits.append((each.score, is_right))
    hits.sort(key=lambda hit: -hit[0])
    points = []
    for number in range(1, len(hits) + 1):
        right = sum(is_right for _, is_right in hits[:number])
        points.append((right / count, right / number))
    return float(np.mean([max((p for r, p in points if r >= level / 100), default=0.0) for level in range(101)]))
