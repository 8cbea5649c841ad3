"""The float model with a single activation in 8 bits: what that tensor alone costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.search.integers import activation_parameters
from app.conversion.toolchains.host.search.template import Activation

EXACT = "_before_rounding"


def with_one_rounded(float_model: Any, activation: Activation, limits: Range) -> Any:
    """A copy (onnx.ModelProto) in which each tensor of the activation passes through uint8 and back."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.ModelProto()
    model.CopyFrom(float_model)
    scale, zero = activation_parameters(limits, np.uint8)
    names = [f"{activation.name}{ending}" for ending in ("_one_scale", "_one_zero_point")]
    model.graph.initializer.extend(
        [
            numpy_helper.from_array(np.array(scale, np.float32), names[0]),
            numpy_helper.from_array(np.array(zero, np.uint8), names[1]),
        ]
    )
    inputs = {value.name for value in model.graph.input}
    nodes: list[Any] = []
    for tensor in activation.tensors:
        if tensor in inputs:
            rounded = f"{tensor}_rounded"
            nodes += _pair(helper, tensor, rounded, names)
            _rename_inputs(model.graph, tensor, rounded)
    for node in model.graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            if name in activation.tensors and name:
                node.output[place] = f"{name}{EXACT}"
                nodes += _pair(helper, node.output[place], name, names)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _pair(helper: Any, source: str, target: str, names: list[str]) -> list[Any]:
    integers = f"{target}_integers"
    return [
        helper.make_node("QuantizeLinear", [source, *names], [integers], f"{target}/round"),
        helper.make_node("DequantizeLinear", [integers, *names], [target], f"{target}/back"),
    ]


def _rename_inputs(graph: Any, old: str, new: str) -> None:
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == old:
                node.input[place] = new
