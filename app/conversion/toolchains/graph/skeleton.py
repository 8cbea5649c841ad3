"""A graph without its weights: everything that shape inference needs, small whatever the size of the model."""

from __future__ import annotations

from math import prod

import onnx
from onnx import helper

from app.conversion.toolchains.graph.specs import input_values

KEPT_ELEMENTS = 1024
"""Tensors up to this size are kept: among them are the targets of Reshape, Resize, Slice and their like."""
IR_FREE_INITIALIZERS = 4
"""Before this IR version every initializer had to be listed as an input."""


def skeleton(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same nodes, inputs and outputs; large weights are named in value_info with their type and shape only."""
    bare = onnx.ModelProto(ir_version=max(model.ir_version, IR_FREE_INITIALIZERS))
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    graph = bare.graph
    graph.name = model.graph.name or "graph"
    graph.input.extend(input_values(model))
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    for tensor in model.graph.initializer:
        _add_weight(graph, tensor, tensor.name)
    for sparse in model.graph.sparse_initializer:
        graph.value_info.append(_typed(sparse.values.name, sparse.values.data_type, list(sparse.dims)))
    for node in model.graph.node:
        value = _large_constant(node)
        if value is None:
            graph.node.append(node)
        else:
            graph.value_info.append(_typed(node.output[0], value.data_type, list(value.dims)))
    return bare


def _add_weight(graph: onnx.GraphProto, tensor: onnx.TensorProto, name: str) -> None:
    if prod(tensor.dims) <= KEPT_ELEMENTS:
        graph.initializer.append(tensor)
    else:
        graph.value_info.append(_typed(name, tensor.data_type, list(tensor.dims)))


def _large_constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or not node.output:
        return None
    values: list[onnx.TensorProto] = [attribute.t for attribute in node.attribute if attribute.name == "value"]
    return next((tensor for tensor in values if prod(tensor.dims) > KEPT_ELEMENTS), None)


def _typed(name: str, elem_type: int, dims: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, dims)
