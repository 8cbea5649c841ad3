"""DETR and RT-DETR, against a plain computation for each query."""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.toolchains.host.task_recognition import task_meter
from app.inference.decoders import OutputSpec, family_of
from app.inference.errors import ModelUnusable
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import Fit, Shape
from tests.harness.models.vision import answering, opened, plain

ALL = PredictorOptions(score_threshold=0.3, candidate_threshold=0.3, nms_threshold=0.1)
SIZE = (640, 480)


def read(outputs: dict[str, np.ndarray], name: Decoder, chosen: Decoder = Decoder.AUTO) -> tuple[Box, ...]:
    """Of a picture as large as the input."""
    family = family_of(chosen, [OutputSpec(key, values.shape) for key, values in outputs.items()], SIZE)
    assert family.name is name
    return family.read(outputs, Fit(SIZE, SIZE), SIZE, ALL).boxes


def queries(rows: int, columns: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    logits = rng.normal(-2, 3, (1, rows, columns)).astype(np.float32)
    logits[0, ::3, -1] = 9
    return {"logits": logits, "pred_boxes": rng.uniform(0.2, 0.6, (1, rows, 4)).astype(np.float32)}


def expected(outputs: dict[str, np.ndarray], *, is_exclusive: bool) -> list[list[float]]:
    rows = []
    for logits, (cx, cy, w, h) in zip(outputs["logits"][0].tolist(), outputs["pred_boxes"][0].tolist(), strict=True):
        if is_exclusive:
            total = sum(exp(value) for value in logits)
            scores = [exp(value) / total for value in logits][:-1]
        else:
            scores = [1 / (1 + exp(-value)) for value in logits]
        corners = (cx - w / 2) * 640, (cy - h / 2) * 480, (cx + w / 2) * 640, (cy + h / 2) * 480
        clipped = [min(max(value, 0), most) for value, most in zip(corners, SIZE * 2, strict=True)]
        likely = [(score, label) for label, score in enumerate(scores) if score >= 0.3]
        rows += [[*clipped, *pair] for pair in (sorted(likely)[-1:] if is_exclusive else likely)]
    best = sorted(rows, key=lambda row: -row[4])[: len(outputs["logits"][0])]  # RT-DETR takes so many pairs
    return sorted(best, key=lambda row: (row[2], row[5]))


@pytest.mark.parametrize(
    ("rows", "columns", "name"), [(100, 92, Decoder.DETR), (300, 80, Decoder.RTDETR), (900, 91, Decoder.RTDETR)]
)
def test_the_number_of_queries_shows_whether_the_last_column_is_no_object(
    rows: int, columns: int, name: Decoder
) -> None:
    outputs = queries(rows, columns)
    boxes = read(outputs, name)
    plainly = expected(outputs, is_exclusive=name is Decoder.DETR)
    assert len(boxes) == len(plainly) > 10
    ordered = sorted(boxes, key=lambda box: (box.x2, box.label))
    values = [[box.x1, box.y1, box.x2, box.y2, box.score, box.label] for box in ordered]
    np.testing.assert_allclose(values, plainly, rtol=1e-3, atol=0.05)


def test_the_other_kind_may_be_chosen() -> None:
    outputs = queries(300, 5)
    boxes = read(outputs, Decoder.DETR, Decoder.DETR)
    assert len(boxes) == len(expected(outputs, is_exclusive=True)) < len(read(outputs, Decoder.RTDETR))


def test_order_and_further_outputs_do_not_matter_and_three_classes_are_no_box() -> None:
    outputs = queries(100, 4)
    boxes = read(outputs, Decoder.DETR)
    more = {
        "last_hidden_state": np.zeros((1, 100, 256)),
        "pred_boxes": outputs["pred_boxes"],
        "logits": outputs["logits"],
    }
    assert read(more, Decoder.DETR) == boxes
    assert len(boxes) > 10


@pytest.mark.parametrize("inexact", [0, 0.02])
def test_probabilities_stay_also_those_of_an_int8_model(inexact: float) -> None:
    outputs = queries(300, 80)
    again = {**outputs, "logits": 1 / (1 + np.exp(-outputs["logits"]))}
    again["logits"][0, 1] = -inexact
    outputs["logits"][0, 1] = -40
    for one, other in zip(read(outputs, Decoder.RTDETR), read(again, Decoder.RTDETR), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)


def test_numbers_that_are_none_give_no_boxes() -> None:
    outputs = queries(300, 80)
    outputs["logits"][0, 10:] = -9
    plainly = expected({key: values[:, 2:] for key, values in outputs.items()}, is_exclusive=False)
    outputs["logits"][0, 0], outputs["pred_boxes"][0, 1] = np.nan, np.nan
    assert len(read(outputs, Decoder.RTDETR)) == len(plainly) > 10


@pytest.mark.parametrize(
    ("shapes", "name"),
    [
        ({"dets": (1, 300, 4), "labels": (1, 300, 91)}, Decoder.RTDETR),
        ({"scores": (1, 300, 2), "boxes": (1, 300, 4)}, Decoder.ULTRAFACE),
        ({"logits": (1, 100, 2), "pred_boxes": (1, 100, 4)}, Decoder.DETR),
        ({"logits": (1, None, 80), "pred_boxes": (1, None, 4)}, Decoder.RTDETR),
        ({"logits": (1, 125, 3), "pred_boxes": (1, 125, 4)}, Decoder.DETR),
        ({"a": (None, 100, 92), "b": (None, 100, 4)}, Decoder.DETR),
        ({"labels": (1, 300), "boxes": (1, 300, 4), "scores": (1, 300)}, Decoder.RTDETR),
        ({"labels": (1, 200), "boxes": (1, 200, 4), "scores": (1, 200)}, Decoder.SSD),
        ({"boxes": (300, 4), "labels": (300,), "scores": (300,)}, Decoder.SSD),
        ({"scores": (1, 4420, 2), "boxes": (1, 4420, 4)}, Decoder.ULTRAFACE),
        ({"scores": (1, 50, 2), "boxes": (1, 50, 4)}, Decoder.ULTRAFACE),
    ],
)
def test_auto_tells_them_from_their_neighbours(shapes: dict[str, Shape], name: Decoder) -> None:
    ports = [OutputSpec(key, shape) for key, shape in shapes.items()]
    assert family_of(Decoder.AUTO, ports, SIZE).name is name


@pytest.mark.parametrize("shapes", [{"logits": (1, 100, 92)}, {"a": (1, 100, 92), "b": (1, 99, 4)}, {"a": (1, 5, 6)}])
@pytest.mark.parametrize("name", [Decoder.DETR, Decoder.RTDETR])
def test_other_outputs_are_refused(shapes: dict[str, Shape], name: Decoder) -> None:
    with pytest.raises(ModelUnusable, match=f"not those of {name}"):
        family_of(name, [OutputSpec(key, shape) for key, shape in shapes.items()], SIZE)


def post_processing() -> onnx.ModelProto:
    """As RT-DETR exports: a picture and its size → labels, boxes in pixels of that size, scores. The first of 300
    scores is the mean of the picture."""
    shares = np.zeros((1, 300, 4), np.float32)
    shares[0, 0] = 0.25, 0.5, 0.5, 1
    places = np.zeros((1, 300), np.float32)
    places[0, 0] = 1
    nodes = [
        helper.make_node("Cast", ["orig_target_sizes"], ["sizes"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["sizes", "sizes"], ["scale"], axis=1),
        helper.make_node("Mul", ["shares", "scale"], ["boxes"]),
        helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["places", "mean"], ["scores"]),
        helper.make_node("Identity", ["classes"], ["labels"]),
    ]
    weights = {"shares": shares, "places": places, "classes": np.full((1, 300), 2, np.int64)}
    graph = helper.make_graph(
        nodes,
        "rtdetr",
        [
            helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 32, 64]),
            helper.make_tensor_value_info("orig_target_sizes", TensorProto.INT64, [1, 2]),
        ],
        [
            helper.make_tensor_value_info("labels", TensorProto.INT64, [1, 300]),
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 300, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 300]),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_the_post_processed_export_is_given_the_size_that_it_takes(tmp_path: Path) -> None:
    predictor = opened(tmp_path, post_processing())
    assert predictor.decoder is Decoder.RTDETR
    (box,) = predictor.predict(plain(204, 204, 204, width=128, height=128)).boxes
    assert [box.x1, box.y1, box.x2, box.y2] == pytest.approx([32, 64, 64, 128])
    assert (box.label, box.score) == (2, pytest.approx(0.8, rel=1e-4))


def masked(shape: list[Any]) -> onnx.ModelProto:
    """As optimum exports DETR: a picture and a mask. The first query's class is sure as far as the mask is filled."""
    logits, boxes, places = (np.zeros((1, 100, width), np.float32) for width in (92, 4, 92))
    logits[0, :, 91], places[0, 0, 3], boxes[0, 0] = 10, 30, [0.5, 0.5, 0.5, 0.5]
    nodes = [
        helper.make_node("Cast", ["pixel_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["mask"], ["share"], keepdims=0),
        helper.make_node("ReduceMean", ["pixel_values"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nought"]),
        helper.make_node("Mul", ["places", "share"], ["sure"]),
        helper.make_node("Add", ["base", "sure"], ["logits"]),
        helper.make_node("Add", ["boxes", "nought"], ["pred_boxes"]),
    ]
    weights = {"base": logits, "places": places, "boxes": boxes, "zero": np.zeros((), np.float32)}
    graph = helper.make_graph(
        nodes,
        "detr",
        [
            helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, 32, 64]),
            helper.make_tensor_value_info("pixel_mask", TensorProto.INT64, shape),
        ],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 100, 92]),
            helper.make_tensor_value_info("pred_boxes", TensorProto.FLOAT, [1, 100, 4]),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("shape", [["n", 64, 64], ["n", "h", "w"]])
def test_the_mask_of_detrs_export_is_filled(tmp_path: Path, shape: list[Any]) -> None:
    (box,) = opened(tmp_path, masked(shape)).predict(plain(1, 2, 3, width=80, height=40)).boxes
    assert [box.x1, box.y1, box.x2, box.y2] == pytest.approx([20, 10, 60, 30])
    assert box.label == 3


def test_detr_runs_on_a_picture_and_names_the_classes_of_coco(tmp_path: Path) -> None:
    logits, boxes = np.zeros((1, 100, 92), np.float32), np.zeros((1, 100, 4), np.float32)
    logits[0, :, 91] = 10
    logits[0, 4, 18], boxes[0, 4] = 20, [0.5, 0.5, 0.5, 0.25]
    predictor = opened(tmp_path, answering({"pred_boxes": boxes, "logits": logits}))
    (box,) = predictor.predict(plain(1, 2, 3, width=80, height=40)).boxes
    assert (predictor.decoder, predictor.labels[box.label]) == (Decoder.DETR, "dog")
    assert [box.x1, box.y1, box.x2, box.y2] == pytest.approx([20, 15, 60, 25])


def test_the_loss_of_a_conversion_is_told_by_its_boxes() -> None:
    outputs = queries(300, 80)
    meter = task_meter(answering(outputs))
    assert meter is not None
    meter.add(outputs, outputs)
    agreement = meter.agreement()
    assert (agreement.kind, agreement.float_agreement) == ("box_f1", 1)
    moved = {**outputs, "pred_boxes": outputs["pred_boxes"] + np.array([0.5, 0, 0, 0], np.float32)}
    meter.add(outputs, moved)
    assert 0 < (meter.agreement().float_agreement or 0) < 1
