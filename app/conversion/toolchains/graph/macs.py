"""Multiply-accumulate operations of one run of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import onnx

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.inference import FAILURES, inferred
from app.conversion.toolchains.graph.skeleton import skeleton
from app.conversion.toolchains.graph.specs import axis_of

Shapes = Mapping[str, tuple[int, ...]]
Rule = Callable[[onnx.NodeProto, Shapes], int]


def macs(model: onnx.ModelProto) -> int | None:
    """Convolutions and matrix products of the main graph, biases not counted.

    None when a shape is unknown, or when such an operator hides in a nested graph or a function, where the number
    of runs is not known.
    """
    top = [node for node in model.graph.node if node.op_type in RULES]
    if len(top) != sum(node.op_type in RULES for node in walk.nodes(model)):
        return None
    if not top:
        return 0
    shapes = _shapes(model)
    try:
        return sum(RULES[node.op_type](node, shapes) for node in top)
    except (KeyError, IndexError):  # a shape that is not known, or of a lower rank than the operator needs
        return None


def _shapes(model: onnx.ModelProto) -> Shapes:
    """Every tensor whose shape is fully known."""
    bare = skeleton(model)
    try:
        graph = inferred(bare).graph
    except FAILURES:
        graph = bare.graph
    known = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        axes = [axis_of(dim) for dim in value.type.tensor_type.shape.dim]
        numbers = tuple(axis for axis in axes if isinstance(axis, int))
        if value.type.tensor_type.HasField("shape") and len(numbers) == len(axes):
            known[value.name] = numbers
    return known


def _conv(weight: int) -> Rule:
    def rule(node: onnx.NodeProto, shapes: Shapes) -> int:
        return prod(shapes[node.output[0]]) * prod(shapes[node.input[weight]][1:])

    return rule


def _conv_transpose(node: onnx.NodeProto, shapes: Shapes) -> int:
    return prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])


def _product(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Every element of the result is a sum over the inner axis of the left factor."""
    left = shapes[node.input[0]]
    is_transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    return prod(shapes[node.output[0]]) * left[-2 if is_transposed else -1]


RULES: dict[str, Rule] = {
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "FusedConv": _conv(1),
    "QLinearConv": _conv(3),
    "ConvTranspose": _conv_transpose,
    "Gemm": _product,
    "FusedGemm": _product,
    "MatMul": _product,
    "FusedMatMul": _product,
    "MatMulInteger": _product,
    "QLinearMatMul": _product,
}
