"""Small ONNX models, made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str | None] | None


def value(name: str, shape: Shape, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[Any],
    outputs: list[Any],
    weights: Any = (),
    *,
    opset: int = 13,
    ir: int = 8,
    domains: Sequence[tuple[str, int]] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(weights))
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*entry) for entry in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, producer_name="tests", producer_version="1")


def conv(shape: Shape = (1, 3, 8, 8), **options: Any) -> onnx.ModelProto:
    """x → Conv 4x3x3x3, padded → Relu → y. 108 parameters, 6912 MACs for 8x8."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 108, dtype=np.float32).reshape(4, 3, 3, 3), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"], name="last"),
    ]
    batch = shape[0] if shape else None
    return model(nodes, [value("x", shape)], [value("y", [batch, 4, None, None])], [weight], **options)


def relu(shape: Shape = (1, 39), dtype: int = TensorProto.FLOAT, **options: Any) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="only")]
    return model(nodes, [value("x", shape, dtype)], [value("y", shape, dtype)], **options)


def add(shape_a: Shape, shape_b: Shape) -> onnx.ModelProto:
    """Inputs a and b, output y."""
    nodes = [helper.make_node("Add", ["a", "b"], ["y"], name="only")]
    return model(nodes, [value("a", shape_a), value("b", shape_b)], [value("y", None)])


def write(path: Path, built: onnx.ModelProto) -> Path:
    path.write_bytes(built.SerializeToString())
    return path


def split(folder: Path, built: onnx.ModelProto | None = None) -> tuple[bytes, bytes]:
    """The graph of a model, and its weights: as exporters write them into model.onnx and model.onnx.data."""
    target = folder / "split"
    target.mkdir()
    options: dict[str, Any] = {"save_as_external_data": True, "location": "model.onnx.data", "size_threshold": 0}
    onnx.save_model(built or conv(), str(target / "model.onnx"), **options)
    return (target / "model.onnx").read_bytes(), (target / "model.onnx.data").read_bytes()
