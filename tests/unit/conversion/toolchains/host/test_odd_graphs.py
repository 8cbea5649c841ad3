"""Graphs that are valid and unusual: each converts, and its report has the numbers that onnxruntime alone comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.model import Stage
from app.conversion.options import Options
from app.inference.runtimes.sessions import session_options
from tests.harness.models.host import arrays, convolutional, model_of, random_weights, run_all, work_folder

pytestmark = pytest.mark.slow  # each of them converts a model

SIDE = 12
PICTURE = [1, 3, SIDE, SIDE]
node = helper.make_node


@dataclass(frozen=True)
class Odd:
    model: Callable[[], onnx.ModelProto]
    shape: tuple[int, ...] = tuple(PICTURE)
    goal: str = "snr>=20"
    lowest_db: float = 25.0


def gemm_with_factors() -> onnx.ModelProto:
    nodes = [
        node("Gemm", ["x", "w", "b"], ["h"], "first", alpha=0.5, beta=2.0, transB=1),
        node("Relu", ["h"], ["r"], "relu"),
        node("Gemm", ["r", "v", "c"], ["y"], "second", beta=3.0),
    ]
    weights = {"w": random_weights(8, 16), "b": random_weights(8), "v": random_weights(8, 4), "c": random_weights(4)}
    return model_of(nodes, {"x": [2, 16]}, {"y": [2, 4]}, weights)


def cubic_resize_of_a_relu() -> onnx.ModelProto:
    """Both have one scale, the Relu is cut by rounding alone, and what is interpolated falls below zero."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"], "relu"),
        node("Resize", ["r", "", "scales"], ["s"], "resize", mode="cubic"),
        node("Conv", ["s", "v"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "b": random_weights(8), "v": random_weights(4, 8, 1, 1)}
    weights["scales"] = np.array([1, 1, 2, 2], np.float32)
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, 2 * SIDE, 2 * SIDE]}, weights)


def transposed_convolution_in_groups() -> onnx.ModelProto:
    """Its weights have the channels of one group, its bias those of all."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("ConvTranspose", ["c", "v", "b"], ["y"], "last", group=2),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "v": random_weights(8, 2, 3, 3), "b": random_weights(4)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE, SIDE]}, weights)


def group_normalization() -> onnx.ModelProto:
    """onnx does not tell the type of what it makes."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("GroupNormalization", ["c", "scale", "shift"], ["n"], "norm", num_groups=2),
        node("Relu", ["n"], ["r"], "relu"),
        node("Conv", ["r", "v", "b"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "scale": np.ones(8, np.float32), "shift": random_weights(8)}
    weights |= {"v": random_weights(4, 8, 1, 1), "b": random_weights(4)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE - 2, SIDE - 2]}, weights, opset=21)


def passed_through() -> onnx.ModelProto:
    model = model_of([node("Conv", ["x", "w"], ["y"], "conv")], {"x": PICTURE}, {}, {"w": random_weights(4, 3, 1, 1)})
    model.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", PICTURE), ("y", [1, 4, SIDE, SIDE]))
    )
    return model


def sparse_weight() -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", "s"], ["h"], "first"), node("MatMul", ["h", "v"], ["y"], "second")]
    model = model_of(nodes, {"x": [1, 16]}, {"y": [1, 4]}, {"v": random_weights(8, 4)})
    values = numpy_helper.from_array(random_weights(32), "s")
    places = numpy_helper.from_array(np.arange(0, 128, 4, dtype=np.int64), "places")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [16, 8]))
    return model


def table_of_rows() -> onnx.ModelProto:
    """What a Gather reads has the scale of what it makes, in 16 bits, too."""
    nodes = [
        node("ArgMax", ["x"], ["places"], "argmax", axis=1, keepdims=0),
        node("Gather", ["table", "places"], ["g"], "gather"),
        node("Mul", ["g", "x"], ["m"], "mul"),
        node("MatMul", ["m", "v"], ["y"], "last"),
    ]
    weights = {"table": 5 * random_weights(16, 16), "v": random_weights(16, 4)}
    return model_of(nodes, {"x": [1, 16]}, {"y": [1, 4]}, weights)


def names_of_the_quantizer() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w_quantized", "w_scale"], ["x_DequantizeLinear_Output"], "conv"),
        node("Conv", ["x_DequantizeLinear_Output", "w"], ["y"], "last"),
    ]
    weights = {"w_quantized": random_weights(8, 3, 3, 3), "w_scale": random_weights(8), "w": random_weights(4, 8, 1, 1)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE - 2, SIDE - 2]}, weights)


def clip_above_zero() -> onnx.ModelProto:
    """Its range has zero in it, so rounding cannot cut at its lower end."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("Clip", ["c", "low", "high"], ["k"], "clip"),
        node("Conv", ["k", "v"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "v": random_weights(4, 8, 1, 1)}
    weights |= {"low": np.array(0.5, np.float32), "high": np.array(2.0, np.float32)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE - 2, SIDE - 2]}, weights)


def clip_in_16_bits() -> onnx.ModelProto:
    """Rounding cuts in its place, also where 16 bits could hold more."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("Clip", ["c", "low", "high"], ["k"], "clip"),
        node("Conv", ["k", "v"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "v": random_weights(4, 8, 1, 1)}
    weights |= {"low": np.array(0, np.float32), "high": np.array(1, np.float32)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE - 2, SIDE - 2]}, weights)


def mask() -> onnx.ModelProto:
    """Beside −1e9 numbers of about one are nothing, in 16 bits, too."""
    nodes = [
        node("MatMul", ["x", "w"], ["h"], "first"),
        node("Greater", ["x", "zero"], ["is_kept"], "greater"),
        node("Where", ["is_kept", "h", "low"], ["m"], "where"),
        node("Softmax", ["m"], ["s"], "softmax"),
        node("MatMul", ["s", "v"], ["y"], "last"),
    ]
    weights = {"w": 5 * random_weights(16, 16), "v": random_weights(16, 4)}
    weights |= {"zero": np.array(0, np.float32), "low": np.array(-1e9, np.float32)}
    return model_of(nodes, {"x": [1, 16]}, {"y": [1, 4]}, weights)


def batch_of_four() -> onnx.ModelProto:
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], "conv"),
        node("Relu", ["c"], ["r"], "relu"),
        node("Conv", ["r", "v", "d"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "b": random_weights(8), "v": random_weights(4, 8, 1, 1)}
    weights["d"] = random_weights(4)
    return model_of(nodes, {"x": [4, 3, SIDE, SIDE]}, {"y": [4, 4, SIDE - 2, SIDE - 2]}, weights)


def shared_bias() -> onnx.ModelProto:
    """The quantizer would call its copy "c0", as the output of a layer is called."""
    nodes = [
        node("Conv", ["x", "w", "c"], ["c0"], "first"),
        node("Sigmoid", ["c0"], ["r"], "sigmoid"),
        node("Conv", ["r", "v", "c"], ["y"], "second"),
    ]
    weights = {"w": random_weights(4, 3, 3, 3), "c": random_weights(4), "v": random_weights(4, 4, 1, 1)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE - 2, SIDE - 2]}, weights)


def logarithm_of_powers() -> onnx.ModelProto:
    """The features of an audio model: powers of very different sizes, of which most are 0 in 8 bits."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "filters"),
        node("Mul", ["c", "c"], ["p"], "power"),
        node("Add", ["p", "least"], ["q"], "add"),
        node("Log", ["q"], ["l"], "log"),
        node("Conv", ["l", "v", "b"], ["h"], "first"),
        node("Relu", ["h"], ["r"], "relu"),
        node("Conv", ["r", "u"], ["y"], "second"),
    ]
    sizes = 10.0 ** np.linspace(-3, 1, 8).reshape(8, 1, 1, 1)
    weights = {"w": (random_weights(8, 3, 3, 3) * sizes).astype(np.float32), "least": np.array(1e-9, np.float32)}
    weights |= {"v": random_weights(8, 8, 1, 1), "b": random_weights(8), "u": random_weights(4, 8, 1, 1)}
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE - 2, SIDE - 2]}, weights)


def of_a_newer_onnx() -> onnx.ModelProto:
    """As `onnx.helper` makes it by default, of versions that onnxruntime does not read."""
    model = convolutional(opset=onnx.defs.onnx_opset_version())
    model.ir_version = onnx.IR_VERSION
    return model


def of_2017() -> onnx.ModelProto:
    """Opset 6, with an addition along an axis, and its weights among its inputs."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("Add", ["c", "b"], ["s"], "bias", broadcast=1, axis=1),
        node("BatchNormalization", ["s", "scale", "b", "b", "scale"], ["n"], "norm", is_test=1),
        node("Relu", ["n"], ["y"], "relu"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "b": random_weights(8), "scale": np.full(8, 1.5, np.float32)}
    model = model_of(nodes, {"x": PICTURE}, {"y": [1, 8, SIDE, SIDE]}, weights, 6)
    model.ir_version = 3
    model.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims) for tensor in model.graph.initializer
    )
    return model


def of_mxnet() -> onnx.ModelProto:
    """Slopes of a PRelu in one dimension, which onnxruntime does not run."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        node("PRelu", ["c", "slopes"], ["r"], "prelu"),
        node("Conv", ["r", "v"], ["y"], "last"),
    ]
    weights = {"w": random_weights(8, 3, 3, 3), "slopes": np.linspace(0, 0.5, 8, dtype=np.float32)}
    weights["v"] = random_weights(4, 8, 1, 1)
    return model_of(nodes, {"x": PICTURE}, {"y": [1, 4, SIDE, SIDE]}, weights, 8)


ODD = {
    "of MXNet": Odd(of_mxnet),
    "of a newer onnx": Odd(of_a_newer_onnx, (1, 3, 16, 16)),
    "of 2017": Odd(of_2017),
    "logarithm of powers": Odd(logarithm_of_powers, goal="none", lowest_db=30),
    "shared bias": Odd(shared_bias),
    "batch of four": Odd(batch_of_four, (4, 3, SIDE, SIDE)),
    "gemm with factors": Odd(gemm_with_factors, (2, 16)),
    "cubic resize of a relu": Odd(cubic_resize_of_a_relu, lowest_db=31),
    "transposed convolution in groups": Odd(transposed_convolution_in_groups, goal="none"),
    "group normalization": Odd(group_normalization),
    "output that is an input": Odd(passed_through),
    "sparse weight": Odd(sparse_weight, (1, 16)),
    "table of rows": Odd(table_of_rows, (1, 16), "snr>=45", 40),
    "names of the quantizer": Odd(names_of_the_quantizer),
    "mask that needs float": Odd(mask, (1, 16), lowest_db=20),
    "clip above zero": Odd(clip_above_zero),
    "clip in 16 bits": Odd(clip_in_16_bits, goal="snr>=55", lowest_db=50),
}


@pytest.mark.parametrize("name", ODD)
def test_an_unusual_graph_converts_and_its_report_is_right(name: str, tmp_path: Path) -> None:
    odd = ODD[name]
    folder = work_folder(tmp_path, odd.model(), arrays(8, *odd.shape))
    options = Options.model_validate({"quantization": {"goal": odd.goal}})
    report = run_all(folder, options)[Stage.BIE].report
    assert report["quantization"]["int8_nodes"] > 0
    assert not any("per tensor" in warning for warning in report["warnings"])
    reported = {row["name"]: row["snr_db"]["mean"] for row in report["quality"]["outputs"]}
    computed = measured_apart(folder)
    assert computed == pytest.approx(reported, abs=0.1) and min(computed.values()) > odd.lowest_db


def measured_apart(folder: Path) -> dict[str, float]:
    """dB of SNR by output, mean over the samples, by nothing of the product but the options of a session."""
    sessions = [
        ort.InferenceSession(folder / name, session_options(1), ["CPUExecutionProvider"])
        for name in ("out.onnx", "out.bie")
    ]
    rows: dict[str, list[float]] = {output.name: [] for output in sessions[0].get_outputs()}
    for path in sorted((folder / "ref_images").iterdir()):
        answers: list[Any] = [session.run(list(rows), {"x": np.load(path)}) for session in sessions]
        for output, exact, rounded in zip(rows, *answers, strict=True):
            noise = float(((exact - rounded) ** 2).sum())
            rows[output].append(10 * np.log10((exact**2).sum() / noise) if noise else 120.0)
    return {output: float(np.mean(values)) for output, values in rows.items()}
