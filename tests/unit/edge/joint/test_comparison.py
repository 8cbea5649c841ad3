"""A new small model beside the former one."""

from __future__ import annotations

import numpy as np
import pytest

from app.edge.joint.comparison import EVERY_S, MOST, REPORT_EVERY_S, ModelComparison
from app.inference.prediction import Picture, Prediction
from app.joint_inference.service.rollouts import comparison_of

PICTURE = np.zeros((8, 8, 3), np.uint8)
FIRST, SECOND = Prediction(probabilities=(0.9, 0.1)), Prediction(probabilities=(0.1, 0.9))


class Former:
    """Says the first class, unless it fails."""

    def __init__(self) -> None:
        self.calls = 0
        self.fails = False

    def predict(self, picture: Picture) -> Prediction:
        self.calls += 1
        if self.fails:
            raise RuntimeError("no")
        return FIRST


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_compares_now_and_then_and_stops_when_enough_is_known() -> None:
    clock, former = Clock(), Former()
    comparison = ModelComparison(former, "2" * 64, clock=clock)
    for place in range(10):
        comparison.add(PICTURE, FIRST if place < 8 else SECOND, 7.0)
        comparison.add(PICTURE, SECOND, 7.0)  # at once: it is not compared
        clock.now += 2 * EVERY_S
    clock.now += REPORT_EVERY_S
    seen = comparison_of({"sha256": "2" * 64, "comparison": comparison.to_json()})
    assert (seen.pictures, seen.agreement, seen.ms, seen.errors) == (10, 0.8, 7.0, 0)
    assert seen.former_ms >= 0
    for _ in range(MOST):
        clock.now += 2 * EVERY_S
        comparison.add(PICTURE, FIRST, 7.0)
    assert former.calls == MOST


def test_what_the_new_model_cannot_answer_counts_and_what_the_former_cannot_does_not() -> None:
    clock, former = Clock(), Former()
    former.fails = True
    comparison = ModelComparison(former, "2" * 64, clock=clock)
    comparison.add(PICTURE, FIRST, 7.0)
    comparison.count_error()
    seen = comparison_of({"sha256": "2" * 64, "comparison": comparison.to_json()})
    assert (seen.pictures, seen.errors, seen.latency) == (0, 1, 1.0)


@pytest.mark.parametrize(
    "reported", [None, {}, {"sha256": "1" * 64, "pictures": 9}, {"sha256": "2" * 64, "pictures": "x"}]
)
def test_a_report_of_another_model_or_of_another_form_is_none(reported: object) -> None:
    assert comparison_of({"sha256": "2" * 64, "comparison": reported}).pictures == 0
