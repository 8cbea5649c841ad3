"""Graphs as exporters write them, with what the quantizer or the runtime takes exception to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.intake.model_checks import check_model
from app.conversion.model import Stage
from app.conversion.options import HostQuantization, Options
from app.conversion.toolchains.graph.walk import SORTED
from app.conversion.toolchains.host import graph_surgery
from app.inference.runtimes.sessions import HostModel, open_session, run
from tests.harness.models.host import model_of, pictures, random_weights, run_all, run_stage, work_folder
from tests.harness.variants import exhaustive

pytestmark = pytest.mark.slow  # nearly each of them converts a model


def constant(name: str, value: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], name, value=numpy_helper.from_array(value))


def resize_with_an_empty_roi(roi: list[onnx.NodeProto]) -> onnx.ModelProto:
    """Conv, BatchNormalization, Resize, Conv. Its other output is the sine of huge numbers, which no reordering of
    sums leaves as it is: the simplified graph is dropped, and its Constants stay."""
    ones = np.ones(4, np.float32)
    nodes = [
        *roi,
        constant("scales", np.array([1, 1, 2, 2], np.float32)),
        helper.make_node("Constant", [], ["huge"], "huge", value_float=3e6),
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], "norm"),
        helper.make_node("Mul", ["n", "huge"], ["n2"], "mul"),
        helper.make_node("Sin", ["n2"], ["wild"], "sin"),
        helper.make_node("Resize", ["n", "roi", "scales"], ["r"], "resize", mode="nearest"),
        helper.make_node("Conv", ["r", "w2"], ["y"], "conv2"),
    ]
    weights = {"w": random_weights(4, 3, 3, 3), "w2": random_weights(2, 4, 1, 1)}
    weights |= {"s": ones * 1.3, "b": ones * 0.1, "m": ones * 0.2, "v": ones * 0.7}
    return model_of(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, 2, 32, 32], "wild": [1, 4, 16, 16]}, weights)


@pytest.mark.parametrize("method", ["minmax", "percentile"])
def test_a_constant_without_elements_is_no_activation(tmp_path: Path, method: str) -> None:
    model = resize_with_an_empty_roi([constant("roi", np.zeros(0, np.float32))])
    options = Options(quantization=HostQuantization.model_validate({"method": method}))
    reports = run_all(work_folder(tmp_path, model, pictures(4)), options)
    assert "was not simplified" in reports[Stage.ONNX].report["warnings"][0]
    assert "3 constants are now weights" in reports[Stage.ONNX].report["changes"]
    assert reports[Stage.BIE].report["quality"]["outputs"][0]["snr_db"]["mean"] > 20
    assert reports[Stage.NEF].report["agreement"]["bit_true"]


def test_a_tensor_that_is_computed_and_has_no_elements_is_no_infinity(tmp_path: Path) -> None:
    roi = [
        constant("none", np.array([0], np.int64)),
        helper.make_node("ConstantOfShape", ["none"], ["roi"], "roi"),
    ]
    reports = run_all(work_folder(tmp_path, resize_with_an_empty_roi(roi), pictures(4)))
    assert "ConstantOfShape" in reports[Stage.ONNX].report["model"]["operators"]
    assert reports[Stage.BIE].report["quality"]["outputs"][0]["snr_db"]["mean"] > 20


def whole_numbers(*shape: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        values = np.random.default_rng(0).integers(-30000, 30000, (8, *shape))
        np.save(folder / "samples.npy", values.astype(np.int32))

    return write


@pytest.mark.parametrize("bias", [(2, 5), (), *exhaustive(((1, 5),))])
def test_a_bias_that_cannot_be_adjusted_per_channel_makes_the_weights_per_tensor(
    tmp_path: Path, bias: tuple[int, ...]
) -> None:
    rows = bias[0] if bias else 1
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], "cast", to=onnx.TensorProto.FLOAT),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], "gemm"),
    ]
    weights = {"w": random_weights(8, 5), "b": random_weights(*bias)}
    model = model_of(nodes, {"x": [rows, 8]}, {"y": [rows, 5]}, weights)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    report = run_all(work_folder(tmp_path, model, whole_numbers(rows, 8)))[Stage.BIE].report
    assert "weights are quantized per tensor: per channel onnxruntime's quantizer" in "".join(report["warnings"])
    assert report["verdict"]["passed"]


def half(opset: int) -> onnx.ModelProto:
    weights = {"w": random_weights(4, 3, 3, 3).astype(np.float16), "b": random_weights(4).astype(np.float16)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"], "relu")]
    model = model_of(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 4, 6, 6]}, weights, opset)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    return model


@pytest.mark.parametrize("opset", [11, 18, *exhaustive(13, 17)])
def test_float16_of_an_older_opset_is_quantized_like_float32(tmp_path: Path, opset: int) -> None:
    reports = run_all(work_folder(tmp_path, half(opset), pictures(4)))
    assert reports[Stage.ONNX].report["model"]["opset"] == (17 if opset == 11 else opset)
    assert reports[Stage.ONNX].report["warnings"] == []
    assert reports[Stage.BIE].report["verdict"]["passed"]
    stored = {tensor.data_type for tensor in onnx.load(str(tmp_path / "out.bie")).graph.initializer}
    assert onnx.TensorProto.INT8 in stored
    assert onnx.TensorProto.FLOAT16 not in stored, "scales in float16 would keep integer operators from running"
    assert reports[Stage.NEF].report["agreement"]["bit_true"]


def test_float16_of_an_opset_that_could_not_be_raised_is_quantized_all_the_same(tmp_path: Path) -> None:
    folder = work_folder(tmp_path, half(17), pictures(4))
    onnx.save(graph_surgery.infer_shapes(half(17)), str(folder / "out.onnx"))
    assert run_stage(Stage.BIE, folder).report["verdict"]["passed"]
    assert run_stage(Stage.NEF, folder).report["agreement"]["bit_true"]


def test_float16_of_a_new_opset_is_left_as_it_is(tmp_path: Path) -> None:
    report = run_all(work_folder(tmp_path, half(20), pictures(4)))[Stage.ONNX].report
    assert (report["model"]["opset"], report["warnings"]) == (20, [])


def half_inside(opset: int = 17) -> onnx.ModelProto:
    """As onnxconverter-common writes it with keep_io_types: float32 outside, float16 inside, and the casts after all
    other nodes, also after those that read what they make."""
    weights = {"w": random_weights(4, 3, 3, 3).astype(np.float16), "b": random_weights(4).astype(np.float16)}
    nodes = [
        helper.make_node("Conv", ["x_half", "w", "b"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["y_half"], "relu"),
        helper.make_node("Cast", ["x"], ["x_half"], "cast_in", to=onnx.TensorProto.FLOAT16),
        helper.make_node("Cast", ["y_half"], ["y"], "cast_out", to=onnx.TensorProto.FLOAT),
    ]
    return model_of(nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 4, 6, 6]}, weights, opset)


@pytest.mark.parametrize("opset", [13, 20, *exhaustive(17)])
def test_float16_with_casts_that_come_too_late_converts(tmp_path: Path, opset: int) -> None:
    folder = work_folder(tmp_path, half_inside(opset), pictures(4))
    checked = check_model(folder / "model.onnx", Options(), max_bytes=1 << 20)
    assert SORTED in checked.changes
    reports = run_all(folder)
    assert SORTED in reports[Stage.ONNX].report["changes"]
    assert reports[Stage.BIE].report["verdict"]["passed"]
    assert reports[Stage.NEF].report["agreement"]["bit_true"]
    onnx.checker.check_model(str(folder / "out.onnx"))


def branches() -> onnx.ModelProto:
    """x [n, m] and a rate: at 16 the one branch is taken; the other cannot be for any m but 1."""
    then = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["t"], "matmul")], "then", [], [onnx.ValueInfoProto(name="t")]
    )
    otherwise = helper.make_graph(
        [helper.make_node("Squeeze", ["h", "one"], ["e"], "squeeze")], "else", [], [onnx.ValueInfoProto(name="e")]
    )
    for value in (then.output[0], otherwise.output[0]):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], "relu"),
        helper.make_node("Equal", ["rate", "sixteen"], ["is_sixteen"], "equal"),
        helper.make_node("If", ["is_sixteen"], ["chosen"], "if", then_branch=then, else_branch=otherwise),
        helper.make_node("MatMul", ["chosen", "w2"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 6), "w2": random_weights(6, 3)}
    weights |= {"sixteen": np.array(16, np.int64), "one": np.array([1], np.int64)}
    model = model_of(nodes, {"x": ["n", "m"]}, {"y": ["n", "k"]}, weights)
    model.graph.input.append(helper.make_tensor_value_info("rate", onnx.TensorProto.INT64, []))
    return model


def rated(folder: Path) -> None:
    for index in range(4):
        x = np.random.default_rng(index).normal(0, 1, (1, 8)).astype(np.float32)
        np.savez(folder / f"{index}.npz", x=x, rate=np.array(16, np.int64))


def test_a_branch_that_is_refused_once_shapes_are_fixed_keeps_the_original_graph(tmp_path: Path) -> None:
    folder = work_folder(tmp_path, branches(), rated)
    reports = run_all(folder, Options(input_shapes={"x": (1, 8)}))
    warning = reports[Stage.ONNX].report["warnings"][-1]
    assert warning.startswith("the original graph was kept, with open input shapes: once fixed, onnxruntime cannot run")
    assert "Node (squeeze)" in warning and "ONNXRuntimeError" not in warning
    assert reports[Stage.ONNX].report["equivalence"]["exact"]
    assert (
        reports[Stage.BIE].report["quantization"]["int8_nodes"] == 1 and reports[Stage.BIE].report["verdict"]["passed"]
    )
    assert {spec["name"]: spec["shape"] for spec in HostModel(folder / "out.nef").inputs} == {"x": [1, 8], "rate": []}


@pytest.mark.parametrize(("operator", "opset"), [("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize(("mode", "scale"), [("linear", 3.0), ("nearest", 1.5)])
def test_what_an_older_opset_enlarges_is_the_same_in_the_newer_one(
    operator: str, opset: int, mode: str, scale: float
) -> None:
    side, weights = int(6 * scale), {"scales": np.array([1, 1, scale, scale], np.float32)}
    nodes = [helper.make_node(operator, ["x", "scales"], ["y"], "enlarged", mode=mode)]
    model = model_of(nodes, {"x": [1, 3, 6, 6]}, {"y": [1, 3, side, side]}, weights, opset)
    upgraded = graph_surgery.upgrade_opset(model)
    inputs = {"x": np.random.default_rng(3).normal(size=(1, 3, 6, 6)).astype(np.float32)}
    before, after = (
        run(open_session(one.SerializeToString(), 1), inputs, ["y"])["y"] for one in (model, upgraded.model)
    )
    assert upgraded.model.opset_import[0].version == 17
    np.testing.assert_array_equal(after, before)
