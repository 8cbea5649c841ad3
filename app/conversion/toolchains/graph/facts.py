"""Facts about a graph without running it, including its multiply-accumulate operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import prod

import onnx

from app.conversion.toolchains.facts import GraphFacts, GraphTensor
from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.shapes import FAILURES, inferred, skeleton
from app.conversion.toolchains.graph.specs import (
    DEFAULT_DOMAINS,
    TensorSpec,
    axis_of,
    graph_inputs,
    graph_outputs,
    opset_of,
)


def facts(model: onnx.ModelProto) -> GraphFacts:
    operators = Counter(operator_name(node) for node in walk.nodes(model))
    return {
        "inputs": [describe_tensor(spec) for spec in graph_inputs(model)],
        "outputs": [describe_tensor(spec) for spec in graph_outputs(model)],
        "opset": opset_of(model),
        "opsets": {entry.domain or "ai.onnx": int(entry.version) for entry in model.opset_import},
        "ir_version": int(model.ir_version),
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        "nodes": operators.total(),
        "parameters": _count_parameters(model),
        "macs": macs(model),
    }


def describe_tensor(spec: TensorSpec) -> GraphTensor:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}


def operator_name(node: onnx.NodeProto) -> str:
    """Returns the name with its domain, unless it is ONNX's own: Conv, com.microsoft.FusedConv."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"


def _count_parameters(model: onnx.ModelProto) -> int:
    stored = [tensor for graph in walk.graphs(model) for tensor in graph.initializer]
    sparse = [tensor.values for graph in walk.graphs(model) for tensor in graph.sparse_initializer]
    return sum(prod(tensor.dims) for tensor in [*stored, *sparse, *walk.attribute_tensors(model)])


Shapes = Mapping[str, tuple[int, ...]]
Rule = Callable[[onnx.NodeProto, Shapes], int]


def macs(model: onnx.ModelProto) -> int | None:
    """Counts the multiply-accumulates of convolutions and matrix products in the main graph, without biases.

    Returns None if a shape is unknown, or if a nested graph or a function contains such an operator, since the number
    of runs is not known then.
    """
    top = [node for node in model.graph.node if node.op_type in RULES]
    if len(top) != sum(node.op_type in RULES for node in walk.nodes(model)):
        return None
    if not top:
        return 0
    shapes = _collect_shapes(model)
    try:
        return sum(RULES[node.op_type](node, shapes) for node in top)
    except (KeyError, IndexError):  # the shape is unknown, or has a lower rank than the operator needs
        return None


def _collect_shapes(model: onnx.ModelProto) -> Shapes:
    """Returns every tensor whose shape is known completely."""
    bare = skeleton(model)
    try:
        graph = inferred(bare).graph
    except FAILURES:
        graph = bare.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        axes = [axis_of(dim) for dim in value.type.tensor_type.shape.dim]
        numbers = tuple(axis for axis in axes if isinstance(axis, int))
        if value.type.tensor_type.HasField("shape") and len(numbers) == len(axes):
            shapes[value.name] = numbers
    return shapes


def _make_conv_rule(weight: int) -> Rule:
    def rule(node: onnx.NodeProto, shapes: Shapes) -> int:
        return prod(shapes[node.output[0]]) * prod(shapes[node.input[weight]][1:])

    return rule


def _count_conv_transpose(node: onnx.NodeProto, shapes: Shapes) -> int:
    return prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])


def _count_product(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Counts a matrix product: every element of the result is a sum over the inner axis of the left factor."""
    left = shapes[node.input[0]]
    is_transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return prod(shapes[node.output[0]]) * left[-2 if is_transposed else -1]


RULES: dict[str, Rule] = {
    "Conv": _make_conv_rule(1),
    "ConvInteger": _make_conv_rule(1),
    "FusedConv": _make_conv_rule(1),
    "QLinearConv": _make_conv_rule(3),
    "ConvTranspose": _count_conv_transpose,
    "Gemm": _count_product,
    "FusedGemm": _count_product,
    "MatMul": _count_product,
    "FusedMatMul": _count_product,
    "MatMulInteger": _count_product,
    "QLinearMatMul": _count_product,
}
