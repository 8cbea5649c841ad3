"""How far two answers to the same picture agree."""

from __future__ import annotations

import pytest

from app.inference.agreement import agreement
from app.inference.prediction import Box, Prediction

FACE, FAR = Box(0, 0, 10, 10, 0.9), Box(50, 50, 60, 60, 0.8)


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (Prediction(), Prediction(), 1.0),
        (Prediction(boxes=(FACE, FAR)), Prediction(boxes=(Box(1, 0, 11, 10, 0.5),)), 2 / 3),
        (Prediction(boxes=(FACE,)), Prediction(boxes=(Box(0, 0, 10, 10, 0.9, 1),)), 0.0),
        (Prediction(probabilities=(0.9, 0.1)), Prediction(probabilities=(0.6, 0.4)), 1.0),
        (Prediction(probabilities=(0.9, 0.1)), Prediction(probabilities=(0.4, 0.6)), 0.0),
        (Prediction(probabilities=(0.9, 0.1)), Prediction(boxes=(FACE,)), 0.0),
    ],
)
def test_boxes_agree_by_their_places_and_classes_and_classifiers_by_their_class(
    one: Prediction, other: Prediction, value: float
) -> None:
    assert agreement(one, other) == agreement(other, one) == pytest.approx(value)
