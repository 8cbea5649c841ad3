"""Small models, samples and a stage runner for the tests of the host toolchain."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.toolchains.base import StageRequest, StageResult
from app.conversion.toolchains.host.toolchain import HostToolchain

SIDE = 16


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    outputs: dict[str, list[Any]],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A float32 model; shapes as lists."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def random_weights(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(0, 0.3, shape)).astype(np.float32)


def convolutional(opset: int = 17, batch: Any = 1) -> onnx.ModelProto:
    """Conv, BatchNormalization, Relu, Conv, Softmax over the channels: [batch, 3, 16, 16] → [batch, 4, 16, 16]."""
    ones = np.ones(8, dtype=np.float32)
    weights = {
        "w1": random_weights(8, 3, 3, 3),
        "b1": random_weights(8),
        "w2": random_weights(4, 8, 1, 1, seed=1),
        "scale": ones * 1.5,
        "shift": ones * 0.1,
        "mean": ones * 0.2,
        "var": ones * 0.9,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"], "norm"),
        helper.make_node("Relu", ["n1"], ["r1"], "relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "conv2"),
        helper.make_node("Softmax", ["c2"], ["y"], "softmax", axis=1),
    ]
    shape = [batch, 3, SIDE, SIDE]
    return model_of(nodes, {"x": shape}, {"y": [batch, 4, SIDE, SIDE]}, weights, opset)


def two_inputs() -> onnx.ModelProto:
    """left [1, 6] and right [1, 4] through a Gemm each, added: [1, 5]."""
    weights = {"wl": random_weights(6, 5), "wr": random_weights(4, 5, seed=1)}
    nodes = [
        helper.make_node("Gemm", ["left", "wl"], ["a"], "gemm_left"),
        helper.make_node("Gemm", ["right", "wr"], ["b"], "gemm_right"),
        helper.make_node("Add", ["a", "b"], ["y"], "add"),
    ]
    return model_of(nodes, {"left": [1, 6], "right": [1, 4]}, {"y": [1, 5]}, weights)


def work_folder(folder: Path, model: onnx.ModelProto | Path, samples: Callable[[Path], None] | None) -> Path:
    """A work folder as a worker makes it: the model and ref_images/."""
    folder.mkdir(parents=True, exist_ok=True)
    data = model.read_bytes() if isinstance(model, Path) else model.SerializeToString()
    (folder / "model.onnx").write_bytes(data)
    if samples is not None:
        (folder / "ref_images").mkdir()
        samples(folder / "ref_images")
    return folder


def pictures(count: int, side: int = SIDE) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for index in range(count):
            pixels = np.random.default_rng(index).integers(0, 256, (side, side, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"picture_{index:03}.png")

    return write


def arrays(count: int, *shape: int, spread: float = 1.0) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for index in range(count):
            values = np.random.default_rng(index).normal(0, spread, shape).astype(np.float32)
            np.save(folder / f"sample_{index:03}.npy", values)

    return write


@cache
def freeze_libraries() -> None:
    """A stage collects its garbage twice, and would look over the objects of these libraries each time."""
    import onnxslim  # noqa: F401

    gc.freeze()


def run_stage(
    stage: Stage, folder: Path, options: Options | None = None, progress_log: list[tuple[float, str]] | None = None
) -> StageResult:
    """One stage; what it reports must be JSON without NaN."""
    freeze_libraries()
    request = StageRequest(stage, folder, options or Options(), threads=2)

    def progress(fraction: float, what: str) -> None:
        if progress_log is not None:
            progress_log.append((fraction, what))

    result = HostToolchain().run(request, progress)
    json.dumps([result.report, result.summary, result.versions], allow_nan=False)
    return result


def run_all(folder: Path, options: Options | None = None) -> dict[Stage, StageResult]:
    return {stage: run_stage(stage, folder, options) for stage in Stage}
