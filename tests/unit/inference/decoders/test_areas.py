"""Semantic segmentation: areas of maps whose classes are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from app.conversion.toolchains.host.task_recognition import task_meter
from app.inference.decoders import OutputSpec, family_of
from app.inference.decoders.segmentation import Segmentation
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.polygons import area_of
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import fit_of
from tests.harness.models.vision import answering, card, opened, plain

SIZE = (128, 64)
OPTIONS = PredictorOptions(score_threshold=0.6, candidate_threshold=0.2)


def classes() -> np.ndarray:
    """64×128: class 2 in two rectangles, class 1 in one, class 0 elsewhere."""
    values = np.zeros((64, 128), np.int64)
    values[8:24, 16:48], values[40:56, 80:96], values[32:48, 8:24] = 2, 2, 1
    return values


def logits(values: np.ndarray, count: int, strength: float = 6.0) -> np.ndarray:
    return (np.eye(count, dtype=np.float32)[values] * strength).transpose(2, 0, 1)[None]


def read(outputs: dict[str, np.ndarray], source: tuple[int, int] = SIZE, resize: str = "stretch") -> tuple[Box, ...]:
    ports = [OutputSpec(name, values.shape, values) for name, values in outputs.items()]
    family = family_of(Decoder.AUTO, ports, SIZE)
    assert family.name is Decoder.SEGMENTATION
    return family.read(outputs, fit_of(source, SIZE, resize), SIZE, OPTIONS).boxes  # type: ignore[arg-type]


FORMS = {
    "channels first": logits(classes(), 5),
    "channels last": logits(classes(), 5).transpose(0, 2, 3, 1),
    "a quarter": logits(classes(), 5)[:, :, ::4, ::4],
    "numbers of classes": classes()[None],
    "numbers with a channel": classes()[None, None].astype(np.uint8),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_connected_part_of_a_class_is_an_area(form: str) -> None:
    areas = read({"out": FORMS[form]})
    assert [(box.label, round(2 * area_of(box.mask[0]) / 512)) for box in areas[:2]] == [(0, 32), (2, 2)]
    assert sorted((box.label, round(2 * area_of(box.mask[0]) / 512)) for box in areas[2:]) == [(1, 1), (2, 1)]
    first = areas[1]
    assert (first.x1, first.y1, first.x2, first.y2) == pytest.approx((16, 8, 48, 24), abs=2.1)
    expected = 1.0 if "numbers" in form else np.exp(6) / (np.exp(6) + 4)
    assert first.score == pytest.approx(expected, abs=1e-3)


def test_bars_of_a_letterbox_are_no_part_of_the_picture_and_areas_end_at_its_border() -> None:
    values = np.full((64, 128), 1)
    values[:, 64:] = 3
    left, right = sorted(read({"out": logits(values, 5)}, (640, 160), "letterbox"), key=lambda box: box.x1)
    assert (left.x1, left.y1, left.y2) == pytest.approx((0, 0, 160))
    assert (right.x2, right.y1, right.y2) == pytest.approx((640, 0, 160))
    assert left.x2 == pytest.approx(320, abs=5)
    assert right.x1 == pytest.approx(320, abs=5)


def test_a_mask_is_one_class_and_unsure_or_tiny_areas_are_left_out() -> None:
    mask = np.full((1, 1, 64, 128), 0.1, np.float32)
    mask[0, 0, 8:24, 16:48], mask[0, 0, 40:56, 80:96], mask[0, 0, 50, 5] = 0.9, 0.55, 0.99
    (area,) = read({"mask": mask})
    assert (area.label, round(area.score, 2)) == (0, 0.9)
    family = Segmentation()
    assert family.usual_labels([OutputSpec("mask", mask.shape, mask)]) == ("object",)
    assert len(family.read({"mask": mask}, fit_of(SIZE, SIZE, "stretch"), SIZE, OPTIONS).candidates) == 2


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((1, 3, 64, 128), None),
        ((1, 5, 30, 60), None),
        ((1, 1, 64, 128), np.full((1, 1, 64, 128), 7.5, np.float32)),
        ((1, 64, 128), np.zeros((1, 64, 128), np.float32)),
    ],
    ids=["a picture", "another size", "depth", "depth without a channel"],
)
def test_what_may_be_something_else_is_not_recognized(shape: tuple[int, ...], values: np.ndarray | None) -> None:
    with pytest.raises(ModelUnusable):
        family_of(Decoder.AUTO, [OutputSpec("out", shape, values)], SIZE)


def test_values_that_are_no_numbers_are_an_error() -> None:
    values = logits(classes(), 5)
    values[0, 1, 3, 3] = np.nan
    with pytest.raises(InferenceFailed, match="no numbers"):
        read({"out": values})


@pytest.mark.parametrize(
    ("count", "labels", "names"), [(21, (), {"aeroplane", "bicycle"}), (4, ("Background", "a", "b", "c"), {"a", "b"})]
)
def test_the_background_is_no_area_and_classes_may_be_chosen(
    tmp_path: Path, count: int, labels: tuple[str, ...], names: set[str]
) -> None:
    model = answering({"out": logits(classes(), count)}, (1, 3, 64, 128))
    predictor = opened(tmp_path, model, card(labels=labels))
    assert {predictor.labels[box.label] for box in predictor.predict(plain(1, 2, 3)).boxes} == names
    chosen = opened(tmp_path, model, card(labels=labels), classes=(min(names),))
    assert {chosen.labels[box.label] for box in chosen.predict(plain(1, 2, 3)).boxes} == {min(names)}


def test_a_conversion_compares_pixel_by_pixel() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Resize", ["c", "", "scales"], ["y"], "resize"),
    ]
    weights = {"w": np.ones((4, 3, 1, 1), np.float32), "scales": np.ones(4, np.float32)}
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 64, 128])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 64, 128])
    initializers = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(helper.make_graph(nodes, "areas", [shape], [given], initializers))
    meter = task_meter(model)
    assert meter is not None
    one, other = logits(classes(), 4), logits(np.where(classes() == 1, 0, classes()), 4)
    meter.add({"y": one}, {"y": other})
    agreement = meter.agreement()
    assert (agreement.kind, agreement.float_agreement) == (
        "mask_iou",
        pytest.approx((1 + 0 + 7168 / 7424) / 3, abs=0.01),
    )
