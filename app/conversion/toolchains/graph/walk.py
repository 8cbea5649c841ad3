"""Walking an ONNX graph with everything nested in it: bodies of If, Loop and Scan, and model-local functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph, then every nested one, also those inside functions."""
    yield from _below(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes: of the graph, of nested graphs, of functions."""
    for graph in graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def attribute_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Tensors that are attributes of nodes, such as the value of a Constant."""
    for node in nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            for tensor in attribute.sparse_tensors:
                yield from (tensor.values, tensor.indices)


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor: initializers of all graphs, then tensors in attributes."""
    for graph in graphs(model):
        yield from graph.initializer
        for tensor in graph.sparse_initializer:
            yield from (tensor.values, tensor.indices)
    yield from attribute_tensors(model)


def _below(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    yield from _of_nodes(graph.node)


def _of_nodes(some: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    for node in some:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _below(attribute.g)
            for graph in attribute.graphs:
                yield from _below(graph)
