"""What a quantized model loses of the task, as a goal like drop<=1% counts it."""

from __future__ import annotations

import numpy as np
import pytest

from app.conversion.toolchains.host.task_drop import DropMeter, drop_meters
from app.conversion.toolchains.samples.labels import Labels, PictureLabels
from app.inference.preprocess_options import Preprocess
from tests.unit.conversion.toolchains.host.search.test_search import network

CLASSES = 10


def added(labels: dict[str, int], answers: list[tuple[int, int]]) -> DropMeter:
    """Pictures p0, p1, … with what the float and the quantized model take them for."""
    known = Labels("top1", {name: PictureLabels(label) for name, label in labels.items()})
    meter = drop_meters(network(), known, Preprocess())()
    assert meter is not None
    for place, (exact, rounded) in enumerate(answers):
        expected, actual = ({"y": np.eye(CLASSES, dtype=np.float32)[[one]]} for one in (exact, rounded))
        meter.add(f"p{place}", expected, actual)
    return meter


@pytest.mark.parametrize(
    ("answers", "drop"),
    [
        ([(1, 1), (2, 2), (3, 3), (4, 5)], 25.0),
        ([(1, 1), (2, 2), (0, 3), (4, 4)], -25.0),
        ([(9, 8), (9, 7), (9, 6), (9, 5)], 0.0),
    ],
)
def test_by_labels_it_is_what_the_float_model_has_more_of_right_answers(
    answers: list[tuple[int, int]], drop: float
) -> None:
    labels = {"p0": 1, "p1": 2, "p2": 3, "p3": 4}
    assert added(labels, answers).drop_percent() == pytest.approx(drop)


def test_pictures_without_a_label_do_not_count() -> None:
    assert added({"p0": 1, "p1": 2}, [(1, 1), (2, 3), (5, 6), (7, 8)]).drop_percent() == pytest.approx(50.0)


def test_where_no_picture_has_a_label_the_answers_of_the_float_model_are_the_right_ones() -> None:
    assert added({"elsewhere": 1}, [(1, 2), (3, 3)]).drop_percent() == pytest.approx(50.0)
