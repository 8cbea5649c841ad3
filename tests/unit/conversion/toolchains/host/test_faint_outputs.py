"""Outputs whose SNR says nothing: of a sigmoid that is nearly 0 everywhere, where what is before it does, and classes
as integers beside their probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.toolchains.host.equivalence import prove
from app.conversion.toolchains.host.output_saturation import logits_of
from tests.harness.models.host import arrays, model_of, random_weights, run_all, work_folder

pytestmark = pytest.mark.slow  # nearly each of them converts a model

SIDE, SAMPLES = 12, 6
SHAPE = [1, 3, SIDE, SIDE]


def detector(offset: float) -> onnx.ModelProto:
    """Conv, Relu, Conv with this bias, Sigmoid: with a low one it detects nothing."""
    weights = {"w": random_weights(8, 3, 3, 3), "b": random_weights(8), "v": random_weights(1, 8, 1, 1)}
    weights["d"] = np.array([offset], np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "v", "d"], ["z"], "last"),
        helper.make_node("Sigmoid", ["z"], ["y"], "sigmoid"),
    ]
    return model_of(nodes, {"x": SHAPE}, {"y": [1, 1, SIDE - 2, SIDE - 2]}, weights)


@pytest.mark.parametrize("goal", ["none", "snr>=20"])
def test_an_output_without_a_signal_is_judged_before_its_sigmoid_and_that_is_said(goal: str, tmp_path: Path) -> None:
    folder = work_folder(tmp_path, detector(-30.0), arrays(SAMPLES, *SHAPE))
    report = run_all(folder, Options.model_validate({"quantization": {"goal": goal}}))[Stage.BIE].report
    (output,) = report["quality"]["outputs"]
    assert output["snr_db"]["mean"] > 30 and output["faint_samples"] == SAMPLES and report["verdict"]["passed"]
    assert any("judged before its Sigmoid" in warning for warning in report["warnings"])
    assert [value.name for value in onnx.load(folder / "out.bie").graph.output] == ["y"]
    if goal != "none":
        assert report["goal"]["is_reached"] and report["judgement"]["mean_db"] > 30


@pytest.mark.parametrize("loud", [0, 2])
def test_an_output_with_a_signal_is_judged_itself_also_where_some_samples_have_none(loud: int, tmp_path: Path) -> None:
    """Of six samples two are so bright that the detector finds something."""
    folder = work_folder(tmp_path, detector(-30.0 if loud else 0.0), arrays(SAMPLES, *SHAPE))
    for path in sorted((folder / "ref_images").iterdir())[:loud]:
        np.save(path, 200 * np.load(path))
    report = run_all(folder, Options.model_validate({"quantization": {"goal": "none"}}))[Stage.BIE].report
    assert "faint_samples" not in report["quality"]["outputs"][0]
    assert not any("Sigmoid" in warning for warning in report["warnings"])


@pytest.mark.parametrize("goal", ["none", "snr>=20"])
def test_classes_as_integers_beside_probabilities_are_not_judged_by_their_distance(goal: str, tmp_path: Path) -> None:
    weights = {"w": random_weights(8, 3, 3, 3), "b": random_weights(8)}
    weights["v"] = random_weights(1, 8, 1, 1) + 0.003 * random_weights(9, 8, 1, 1, seed=1)  # nearly equal
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "v"], ["y"], "last"),
        helper.make_node("ArgMax", ["y"], ["class"], "class", axis=1),
    ]
    model = model_of(nodes, {"x": SHAPE}, {"y": [1, 9, SIDE - 2, SIDE - 2]}, weights)
    model.graph.output.append(helper.make_tensor_value_info("class", onnx.TensorProto.INT64, None))
    folder = work_folder(tmp_path, model, arrays(SAMPLES, *SHAPE))
    report = run_all(folder, Options.model_validate({"quantization": {"goal": goal}}))[Stage.BIE].report
    real, integers = (output["snr_db"]["mean"] for output in report["quality"]["outputs"])
    assert integers < 20 < real - 5 and report["verdict"]["passed"] and report["verdict"]["snr_db"] > 20
    if goal != "none":
        assert report["goal"]["is_reached"] and len(report["search"]["candidates"]) < 10


def test_logits_that_are_an_output_already_are_not_exposed() -> None:
    model = detector(0.0)
    assert logits_of(model) == {"y": "z"}
    model.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    assert logits_of(model) == {}


def test_probabilities_that_differ_by_next_to_nothing_are_equal_whatever_their_snr() -> None:
    sample = _Sample()
    equivalence = prove(lambda _: {"y": np.full(4, 1e-8)}, lambda _: {"y": np.full(4, 2e-8)}, [sample], {"y"})
    assert equivalence.is_equal(60.0)
    far = prove(lambda _: {"y": np.full(4, 1e-8)}, lambda _: {"y": np.full(4, 1e-3)}, [sample], {"y"})
    other = prove(lambda _: {"y": np.full(4, 1e-8)}, lambda _: {"y": np.full(4, 2e-8)}, [sample])
    assert not far.is_equal(60.0) and not other.is_equal(60.0)


class _Sample:
    name, arrays = "sample", {"x": np.zeros(1, np.float32)}


@pytest.mark.parametrize(("offset", "shows_nothing"), [(-30.0, True), (30.0, False)])
def test_the_verdict_says_if_the_float_model_finds_nothing_in_the_pictures(
    offset: float, shows_nothing: bool, tmp_path: Path
) -> None:
    """A text detector, as PaddlePaddle writes it."""
    weights = {"w": random_weights(8, 3, 3, 3), "v": random_weights(8, 1, 1, 1), "d": np.array([offset], np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("ConvTranspose", ["c", "v", "d"], ["z"], "last"),
        helper.make_node("Sigmoid", ["z"], ["y"], "sigmoid"),
    ]
    model = model_of(nodes, {"x": SHAPE}, {"y": [1, 1, SIDE, SIDE]}, weights)
    model.producer_name = "PaddlePaddle"
    folder = work_folder(tmp_path, model, arrays(SAMPLES, *SHAPE))
    report = run_all(folder, Options.model_validate({"quantization": {"goal": "none"}}))[Stage.BIE].report
    assert report["quality"]["task"]["kind"] == "mask_iou"
    assert report["verdict"]["shows_nothing"] == shows_nothing
    assert any("finds nothing in these pictures" in warning for warning in report["warnings"]) == shows_nothing
