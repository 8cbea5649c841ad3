"""The answers of a quantized model against those of its float model, task by task."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from app.conversion.toolchains.host.task_metrics import TaskMeter, match_boxes
from app.conversion.toolchains.host.task_recognition import task_meter
from app.inference.prediction import Box
from tests.harness.models import small


def model(
    shape: list[int], *outputs: list[int], operators: tuple[str, ...] = ("Conv",), end: str = ""
) -> onnx.ModelProto:
    """A graph that looks like this; it is never run."""
    names = [f"y{index}" for index in range(len(outputs))]
    nodes = [helper.make_node(operator, ["x"], [f"t{index}"]) for index, operator in enumerate(operators)]
    nodes += [helper.make_node(end or "Relu", ["t0"], [name]) for name in names]
    values = [small.value(name, output) for name, output in zip(names, outputs, strict=True)]
    return small.model(nodes, [small.value("x", shape)], values)


def meter_for(shape: list[int], *outputs: list[int], **details: Any) -> TaskMeter:
    meter = task_meter(model(shape, *outputs, **details))
    assert meter is not None
    return meter


def share(meter: TaskMeter, expected: np.ndarray, actual: np.ndarray) -> float | None:
    meter.add({"y0": expected}, {"y0": actual})
    return meter.agreement().float_agreement


def row(*values: float) -> np.ndarray:
    return np.array([values], np.float32)


def test_a_class_is_the_same_or_it_is_not() -> None:
    meter = meter_for([1, 39], [1, 3], end="Softmax")
    assert share(meter, row(0.1, 0.8, 0.1), row(0.2, 0.5, 0.3)) == 1
    assert share(meter, row(0.1, 0.8, 0.1), row(0.6, 0.3, 0.1)) == 0.5
    assert meter.agreement().to_json() == {
        "kind": "top1",
        "n": 2,
        "answered": 2,
        "float_agreement": 0.5,
        "score_error": None,
    }


def test_a_short_row_that_is_no_probabilities_has_no_class() -> None:
    meter = meter_for([1, 3, 64, 64], [1, 3])
    assert share(meter, row(12.0, -3.0, 4.0), row(11.0, -3.0, 4.0)) is None
    assert meter.agreement().n == 1


def test_embeddings_are_compared_by_their_angle() -> None:
    meter = meter_for([1, 3, 112, 112], [1, 128])
    vector = np.arange(128, dtype=np.float32)[None]
    assert share(meter, vector, 3 * vector) == pytest.approx(1)
    assert share(meter, vector, -vector) == pytest.approx(0)


def test_masks_are_compared_by_what_they_share() -> None:
    meter = meter_for([1, 3, 8, 8], [1, 1, 8, 8], operators=("Conv", "Sigmoid", "ConvTranspose", "HardSigmoid"))
    expected, actual = np.zeros((1, 1, 8, 8), np.float32), np.zeros((1, 1, 8, 8), np.float32)
    expected[..., :4], actual[..., 2:4] = 0.9, 0.9
    assert share(meter, expected, actual) == 0.5
    empty = meter_for([1, 3, 8, 8], [1, 1, 8, 8], operators=("Conv", "Sigmoid", "ConvTranspose", "HardSigmoid"))
    empty.add({"y0": 0.4 * expected}, {"y0": expected})
    assert empty.agreement().shows_nothing


def test_heat_maps_are_compared_by_their_peaks() -> None:
    meter = meter_for([1, 3, 64, 64], [1, 17, 16, 16])
    expected = np.zeros((1, 17, 16, 16), np.float32)
    expected[0, :, 4, 4] = 1
    actual = expected.copy()
    actual[0, 0, 15, 15] = 2
    assert share(meter, expected, actual) == pytest.approx(16 / 17)


def test_lines_of_text_are_the_same_or_not() -> None:
    meter = meter_for([1, 3, 48, 320], [1, 4, 100])
    expected, actual = np.zeros((1, 4, 100), np.float32), np.zeros((1, 4, 100), np.float32)
    for step, (one, other) in enumerate(((7, 7), (7, 0), (0, 7), (9, 9))):
        expected[0, step, one] = actual[0, step, other] = 1
    assert share(meter, expected, expected) == 1
    assert share(meter, expected, actual) == 0.5, "a letter more: 7 7 9 is not 7 9"


def ultraface(*faces: tuple[float, float, float, float, float]) -> dict[str, np.ndarray]:
    """Each x1, y1, x2, y2 in 0..1 and a score."""
    scores, boxes = np.zeros((1, 4420, 2), np.float32), np.zeros((1, 4420, 4), np.float32)
    for index, (*corners, score) in enumerate(faces):
        boxes[0, index], scores[0, index] = corners, (1 - score, score)
    return {"y0": scores, "y1": boxes}


def test_boxes_are_matched_and_their_scores_compared() -> None:
    meter = meter_for([1, 3, 240, 320], [1, 4420, 2], [1, 4420, 4])
    one, two = (0.1, 0.1, 0.3, 0.4, 0.9), (0.6, 0.5, 0.8, 0.9, 0.8)
    meter.add(ultraface(one, two), ultraface((*one[:4], 0.7), (0.0, 0.0, 0.05, 0.05, 0.9)))
    agreement = meter.agreement()
    assert (agreement.kind, agreement.float_agreement) == ("box_f1", 0.5)
    assert agreement.score_error == pytest.approx(0.2, abs=1e-4)


def pose(shift: float = 0.0) -> dict[str, np.ndarray]:
    """A person of 200×200 pixels whose key points are moved by so many pixels."""
    values = np.zeros((1, 56, 8400), np.float32)
    values[0, :, 7] = [300, 300, 200, 200, 0.9, *[250 + shift, 250, 0.9] * 17]
    return {"y0": values}


def test_a_box_with_key_points_counts_as_much_as_they_are_alike() -> None:
    meter = meter_for([1, 3, 640, 640], [1, 56, 8400])
    meter.add(pose(), pose())
    assert (meter.agreement().kind, meter.agreement().float_agreement) == ("keypoints", 1)
    meter.add(pose(), pose(20))
    assert 0.5 < (meter.agreement().float_agreement or 0) < 0.95


def cut(rows: slice) -> dict[str, np.ndarray]:
    """An object whose mask is a part of its box."""
    values, maps = np.zeros((1, 37, 84), np.float32), np.full((1, 32, 16, 16), -1, np.float32)
    values[0, :6, 7] = [32, 32, 32, 32, 0.9, 1]
    maps[:, 0, rows] = 1
    return {"y0": values, "y1": maps}


def test_a_box_with_a_mask_counts_as_much_as_it_is_shared() -> None:
    meter = meter_for([1, 3, 64, 64], [1, 37, 84], [1, 32, 16, 16])
    meter.add(cut(slice(4, 12)), cut(slice(4, 12)))
    assert (meter.agreement().kind, meter.agreement().float_agreement) == ("mask_iou", 1)
    meter.add(cut(slice(4, 12)), cut(slice(4, 8)))
    assert meter.agreement().float_agreement == pytest.approx(0.75, abs=0.02)


def test_pictures_without_a_box_say_nothing() -> None:
    meter = meter_for([1, 3, 240, 320], [1, 4420, 2], [1, 4420, 4])
    meter.add(ultraface(), ultraface())
    agreement = meter.agreement()
    assert agreement.float_agreement is None and agreement.shows_nothing
    meter.add(ultraface((0.1, 0.1, 0.3, 0.4, 0.9)), ultraface())
    assert (meter.agreement().answered, meter.agreement().shows_nothing) == (1, False)


def test_answers_that_cannot_be_read_take_the_metric_away_and_nothing_else() -> None:
    meter = meter_for([1, 3, 240, 320], [1, 4420, 2], [1, 4420, 4])
    meter.add(ultraface((0.1, 0.1, 0.3, 0.4, 0.9)), {"y0": np.zeros((1, 7))})
    assert meter.agreement().float_agreement is None and not meter.agreement().shows_nothing


def test_each_box_is_matched_once_and_only_with_its_class() -> None:
    truth = [Box(0, 0, 10, 10, 0.9, 1)]
    boxes = [Box(0, 0, 10, 10, 0.8, 1), Box(0, 0, 10, 9, 0.9, 1), Box(0, 0, 10, 10, 0.99, 2)]
    assert match_boxes(truth, boxes) == [(truth[0], boxes[1])]
