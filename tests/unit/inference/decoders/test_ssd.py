"""SSD's exports, against a plain computation over each box."""

from __future__ import annotations

from itertools import product
from math import exp, sqrt
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.inference.decoders import OutputSpec, family_of
from app.inference.decoders.ssd_priors import prior_set
from app.inference.errors import ModelUnusable
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import Fit, Size
from tests.harness.models.vision import answering, card, opened, plain

ALL = PredictorOptions(score_threshold=0.3, candidate_threshold=0.3, nms_threshold=1.0)
Prior = tuple[float, float, float, float]


def read(outputs: dict[str, np.ndarray], size: Size, name: Decoder = Decoder.AUTO) -> tuple[Box, ...]:
    """Of a picture as large as the input."""
    family = family_of(name, [OutputSpec(key, values.shape) for key, values in outputs.items()], size)
    assert family.name is Decoder.SSD
    return family.read(outputs, Fit(size, size), size, ALL).boxes


def same(boxes: tuple[Box, ...], expected: list[list[float]]) -> None:
    assert len(boxes) == len(expected) > 0
    rows = [[box.x1, box.y1, box.x2, box.y2, box.score, box.label] for box in boxes]
    np.testing.assert_allclose(rows, sorted(expected, key=lambda row: -row[4]), rtol=2e-3, atol=0.1)


def post_processed(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corners in 0..1, scores from the best, classes from 1."""
    rng = np.random.default_rng(seed)
    starts = rng.uniform(0, 0.5, (rows, 2))
    boxes = np.concatenate([starts, starts + rng.uniform(0.05, 0.5, (rows, 2))], axis=1).astype(np.float32)
    return boxes, np.sort(rng.uniform(0, 1, rows).astype(np.float32))[::-1], rng.integers(1, 91, rows)


@pytest.mark.parametrize("suffix", ["", ":0"])
def test_tensorflow_counts_its_rows_and_classes_and_begins_with_y(suffix: str) -> None:
    boxes, scores, classes = post_processed(40, 1)
    valid = 12
    outputs = {
        f"detection_boxes{suffix}": boxes[None, :, [1, 0, 3, 2]],
        f"detection_classes{suffix}": classes[None].astype(np.float32),
        f"detection_scores{suffix}": scores[None],
        f"num_detections{suffix}": np.array([valid], np.float32),
        f"raw_detection_boxes{suffix}": np.zeros((1, 1917, 4), np.float32),
        f"raw_detection_scores{suffix}": np.zeros((1, 1917, 91), np.float32),
    }
    expected = [
        [*(boxes[row] * [400, 200, 400, 200]), scores[row], classes[row] - 1]
        for row in range(valid)
        if scores[row] >= 0.3
    ]
    same(read(outputs, (400, 200)), expected)


def test_tflite_names_nothing_but_its_post_processing_and_has_no_background() -> None:
    boxes, scores, classes = post_processed(10, 2)
    name = "TFLite_Detection_PostProcess"
    outputs = {
        name: boxes[None, :, [1, 0, 3, 2]],
        f"{name}:1": (classes[None] - 1).astype(np.float32),
        f"{name}:2": scores[None],
        f"{name}:3": np.array([10], np.float32),
    }
    expected = [[*(boxes[row] * 300), scores[row], classes[row] - 1] for row in range(10) if scores[row] >= 0.3]
    same(read(outputs, (300, 300)), expected)


@pytest.mark.parametrize("names", [("boxes", "scores", "labels"), ("3012", "2987", "2990"), ("b", "labels", "scores")])
def test_torchvision_has_no_batch_axis_and_gives_pixels(names: tuple[str, str, str]) -> None:
    boxes, scores, classes = post_processed(15, 3)
    order = {"scores": scores, "labels": classes.astype(np.int64)}
    second, third = (order.get(name, values) for name, values in zip(names[1:], (scores, classes), strict=True))
    outputs = dict(zip(names, (boxes * 300, second, third), strict=True))
    expected = [[*(boxes[row] * 300), scores[row], classes[row] - 1] for row in range(15) if scores[row] >= 0.3]
    same(read(outputs, (300, 300)), expected)


def test_a_picture_without_objects_has_no_rows() -> None:
    outputs = {"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0, np.int64)}
    family = family_of(Decoder.AUTO, [OutputSpec(key, values.shape) for key, values in outputs.items()], (300, 300))
    assert family.read(outputs, Fit((300, 300), (300, 300)), (300, 300), ALL).boxes == ()


def test_classes_that_are_no_numbers_or_the_background_are_no_boxes() -> None:
    outputs = {
        "boxes": np.tile(np.array([[0, 0, 9, 9]], np.float32), (3, 1)),
        "scores": np.full(3, 0.9, np.float32),
        "classes": np.array([np.nan, 0, 7], np.float32),
    }
    assert [box.label for box in read(outputs, (300, 300))] == [6]


def test_what_the_model_has_suppressed_itself_is_not_suppressed_again() -> None:
    outputs = {
        "boxes": np.array([[0, 0, 90, 90], [5, 0, 95, 90]], np.float32),
        "scores": np.array([0.9, 0.8], np.float32),
        "labels": np.array([1, 1]),
    }
    family = family_of(Decoder.AUTO, [OutputSpec(key, values.shape) for key, values in outputs.items()], (300, 300))
    assert len(family.read(outputs, Fit((300, 300), (300, 300)), (300, 300), PredictorOptions()).boxes) == 2


def vgg_priors(least: list[int], most: list[int]) -> list[Prior]:
    """As PriorBox of amdegroot/ssd.pytorch."""
    priors = []
    for k, side in enumerate((38, 19, 10, 5, 3, 1)):
        f_k = 300 / (8, 16, 32, 64, 100, 300)[k]
        for i, j in product(range(side), repeat=2):
            cx, cy = (j + 0.5) / f_k, (i + 0.5) / f_k
            small, big = least[k] / 300, sqrt(least[k] / 300 * (most[k] / 300))
            priors += [(cx, cy, small, small), (cx, cy, big, big)]
            for ratio in ([2], [2, 3], [2, 3], [2, 3], [2], [2])[k]:
                priors.append((cx, cy, small * sqrt(ratio), small / sqrt(ratio)))
                priors.append((cx, cy, small / sqrt(ratio), small * sqrt(ratio)))
    return clipped(priors)


def mobilenet_priors() -> list[Prior]:
    """As generate_ssd_priors of qfgaohao/pytorch-ssd."""
    priors = []
    specs = [(19, 16, 60, 105), (10, 32, 105, 150), (5, 64, 150, 195), (3, 100, 195, 240), (2, 150, 240, 285)]
    for side, shrinkage, least, most in [*specs, (1, 300, 285, 330)]:
        scale = 300 / shrinkage
        for j, i in product(range(side), repeat=2):
            centre = (i + 0.5) / scale, (j + 0.5) / scale
            small, big = least / 300, sqrt(most * least) / 300
            priors += [(*centre, small, small), (*centre, big, big)]
            for ratio in (2, 3):
                priors.append((*centre, small * sqrt(ratio), small / sqrt(ratio)))
                priors.append((*centre, small / sqrt(ratio), small * sqrt(ratio)))
    return clipped(priors)


def ssdlite_priors() -> list[Prior]:
    """As DefaultBoxGenerator of torchvision with min_ratio 0.2 and max_ratio 0.95."""
    scales = [0.2 + (0.95 - 0.2) * k / 5 for k in range(6)] + [1.0]
    priors = []
    for k, side in enumerate((20, 10, 5, 3, 2, 1)):
        between = sqrt(scales[k] * scales[k + 1])
        pairs = [(scales[k], scales[k]), (between, between)]
        for ratio in (2, 3):
            w, h = scales[k] * sqrt(ratio), scales[k] / sqrt(ratio)
            pairs += [(w, h), (h, w)]
        for y, x in product(range(side), repeat=2):
            priors += [((x + 0.5) / side, (y + 0.5) / side, w, h) for w, h in pairs]
    return clipped(priors)


def clipped(priors: list[Prior]) -> list[Prior]:
    return [tuple(min(max(value, 0.0), 1.0) for value in prior) for prior in priors]  # type: ignore[misc]


def tensorflow_priors() -> list[Prior]:
    """As create_ssd_anchors of object_detection with reduce_boxes_in_lowest_layer."""
    scales = [0.2 + (0.95 - 0.2) * k / 5 for k in range(6)] + [1.0]
    priors = []
    for k, side in enumerate((19, 10, 5, 3, 2, 1)):
        if k == 0:
            specs = [(0.1, 1.0), (0.2, 2.0), (0.2, 0.5)]
        else:
            specs = [(scales[k], ratio) for ratio in (1.0, 2.0, 0.5, 3.0, 1 / 3)]
            specs.append((sqrt(scales[k] * scales[k + 1]), 1.0))
        for y, x in product(range(side), repeat=2):
            for scale, ratio in specs:
                priors.append(((x + 0.5) / side, (y + 0.5) / side, scale * sqrt(ratio), scale / sqrt(ratio)))
    return priors


SETS = {
    "VGG of COCO": (vgg_priors([21, 45, 99, 153, 207, 261], [45, 99, 153, 207, 261, 315]), 81, 300),
    "VGG of VOC": (vgg_priors([30, 60, 111, 162, 213, 264], [60, 111, 162, 213, 264, 315]), 21, 300),
    "MobileNet": (mobilenet_priors(), 21, 300),
    "SSDlite": (ssdlite_priors(), 91, 320),
    "TensorFlow": (tensorflow_priors(), 91, 300),
}


def test_a_box_may_be_several_things() -> None:
    outputs = {"scores": np.zeros((1, 3000, 21), np.float32), "boxes": np.zeros((1, 3000, 4), np.float32)}
    outputs["scores"][0, :, 0] = 1
    outputs["scores"][0, 7], outputs["boxes"][0] = 0, [0.1, 0.1, 0.5, 0.5]
    outputs["scores"][0, 7, [0, 3, 9]] = 0.1, 0.5, 0.4
    assert [(box.label, round(box.score, 2)) for box in read(outputs, (300, 300))] == [(2, 0.5), (8, 0.4)]


def offsets_and_logits(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Random ones, of which twenty rows show an object."""
    rng = np.random.default_rng(rows)
    offsets = rng.normal(0, 1, (rows, 4)).astype(np.float32)
    logits = rng.normal(0, 0.1, (rows, columns)).astype(np.float32)
    logits[:, 0] += 8
    seen = sorted(rng.choice(rows, 20, replace=False).tolist())
    for row in seen:
        logits[row, 0] = 0
        logits[row, 1 + row % (columns - 1)] += 7
    return offsets, logits, seen


@pytest.mark.parametrize("name", SETS)
def test_offsets_are_to_the_prior_boxes_of_the_network_that_their_number_shows(name: str) -> None:
    priors, columns, side = SETS[name]
    offsets, logits, seen = offsets_and_logits(len(priors), columns)
    is_tensorflow = name == "TensorFlow"
    if is_tensorflow:
        logits[:, 1:] -= 8
        for row in seen:
            logits[row, 1 + row % (columns - 1)] += 8
    expected = []
    for row in seen:
        cx, cy, w, h = priors[row]
        dx, dy, dw, dh = (float(value) for value in offsets[row])
        x, y = cx + dx * 0.1 * w, cy + dy * 0.1 * h
        half_width, half_height = w * exp(dw * 0.2) / 2, h * exp(dh * 0.2) / 2
        corners = [x - half_width, y - half_height, x + half_width, y + half_height]
        label = row % (columns - 1)
        logit = float(logits[row, 1 + label])
        total = sum(exp(float(value)) for value in logits[row])
        score = 1 / (1 + exp(-logit)) if is_tensorflow else exp(logit) / total
        expected.append([*(min(max(value, 0), 1) * side for value in corners), score, label])
    if is_tensorflow:
        offsets = offsets[:, [1, 0, 3, 2]]
    same(read({"loc": offsets[None], "conf": logits[None]}, (side, side)), expected)


def test_corners_of_all_prior_boxes_are_taken_as_they_are() -> None:
    """As pytorch-ssd exports: probabilities, and decoded boxes."""
    scores = np.tile(np.array([1, 0, 0], np.float32), (3000, 1))
    boxes = np.tile(np.array([0.1, 0.2, 0.5, 0.6], np.float32), (3000, 1))
    scores[77] = 0.1, 0.2, 0.7
    same(read({"scores": scores[None], "boxes": boxes[None]}, (300, 300)), [[30, 60, 150, 180, 0.7, 1]])


def test_tensorflows_boxes_before_suppression_begin_with_y() -> None:
    scores = np.zeros((1, 500, 3), np.float32)
    boxes = np.tile(np.array([0.1, 0.2, 0.5, 0.6], np.float32), (1, 500, 1))
    scores[0, 7, 2] = 0.8
    outputs = {"raw_detection_boxes": boxes, "raw_detection_scores": scores}
    same(read(outputs, (400, 200)), [[80, 20, 240, 100, 0.8, 1]])


def test_another_number_of_boxes_is_read_only_if_ssd_is_chosen() -> None:
    scores, boxes = np.zeros((1, 8400, 80), np.float32), np.zeros((1, 8400, 4), np.float32)
    boxes[0, 5], scores[0, 5, 3] = [10, 20, 30, 40], 0.9
    outputs = {"scores": scores, "boxes": boxes}
    with pytest.raises(ModelUnusable, match="no decoder understands"):
        read(outputs, (640, 640))
    same(read(outputs, (640, 640), Decoder.SSD), [[10, 20, 30, 40, 0.9, 2]])


def test_known_prior_boxes_belong_to_the_size_of_their_network() -> None:
    assert prior_set(3234, 91, (300, 300)) is None
    assert prior_set(3000, 21, (320, 320)) is None
    assert prior_set(8733, 21, (300, 300)) is None


@pytest.mark.parametrize(
    "shapes",
    [
        {"boxes": (1, 9, 4), "scores": (1, 9), "labels": (1, 8)},
        {"boxes": (1, 9, 4), "scores": (1, 8), "labels": (1, 8)},
        {"boxes": (1, 9, 4), "scores": (9,), "labels": (9,)},
        {"boxes": (9, 5), "scores": (9,), "labels": (9,)},
        {"detection_boxes": (1, 9, 4), "detection_scores": (1, 9)},
        {"boxes": (1, 3000, 4), "scores": (1, 3000, 1)},
        {"boxes": (1, 3000, 4), "scores": (1, 3001, 3)},
    ],
)
def test_other_outputs_are_not_those_of_ssd(shapes: dict[str, tuple[int, ...]]) -> None:
    ports = [OutputSpec(name, shape) for name, shape in shapes.items()]
    with pytest.raises(ModelUnusable, match="not those of ssd"):
        family_of(Decoder.SSD, ports, (300, 300))


def test_a_model_of_bytes_runs_with_pictures_as_they_are(tmp_path: Path) -> None:
    """As tf2onnx exports: uint8, NHWC; the score is the mean of the picture's pixels / 255."""
    nodes = [
        helper.make_node("Cast", ["x"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Div", ["mean", "white"], ["share"]),
        helper.make_node("Reshape", ["share", "one"], ["detection_scores"]),
        *(helper.make_node("Identity", [f"{name}_value"], [name]) for name in ("detection_boxes", "detection_classes")),
        helper.make_node("Identity", ["count"], ["num_detections"]),
    ]
    weights = {
        "white": np.array(255, np.float32),
        "one": np.array([1, 1], np.int64),
        "detection_boxes_value": np.array([[[0.25, 0.5, 0.5, 1.0]]], np.float32),
        "detection_classes_value": np.array([[3]], np.float32),
        "count": np.array([1], np.float32),
    }
    shapes = {"detection_boxes": [1, 1, 4], "detection_classes": [1, 1], "detection_scores": [1, 1]}
    graph = helper.make_graph(
        nodes,
        "ssd",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 20, 20, 3])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in {**shapes, "num_detections": [1]}.items()
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    predictor = opened(tmp_path, model, card(labels=("person", "bicycle", "car")))
    assert predictor.decoder is Decoder.SSD
    (box,) = predictor.predict(plain(204, 204, 204, width=80, height=40)).boxes
    assert (box.x1, box.y1, box.x2, box.y2, box.label) == (40, 10, 80, 20, 2)
    assert box.score == pytest.approx(0.8)


def test_classes_are_named_by_their_number(tmp_path: Path) -> None:
    for columns, label, name in ((21, 14, "person"), (81, 2, "car"), (91, 89, "toothbrush")):
        scores = np.zeros((1, 1917, columns), np.float32)
        outputs = {"raw_detection_boxes": np.zeros((1, 1917, 4), np.float32), "raw_detection_scores": scores}
        assert opened(tmp_path, answering(outputs)).labels[label] == name
