"""Iterates over an ONNX graph with everything nested in it: bodies of If, Loop and Scan, and model-local functions.
Also sorts its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import onnx

SORTED = "the nodes now stand in the order in which they run"


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yields the main graph, then every nested one, including those inside functions."""
    yield from _iterate_below(model.graph)
    for function in model.functions:
        yield from below(function.node)


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yields all nodes: of the graph, of nested graphs and of functions."""
    for graph in graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def remove_weight_inputs(model: onnx.ModelProto) -> int:
    """Removes initializers from the inputs, where old exporters list them. Returns how many."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    removed = len(model.graph.input) - len(inputs)
    if removed:
        del model.graph.input[:]
        model.graph.input.extend(inputs)
    return removed


def attribute_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yields tensors that are attributes of nodes, such as the value of a Constant."""
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
    """Yields every stored tensor: initializers of all graphs, then tensors in attributes."""
    for graph in graphs(model):
        yield from graph.initializer
        for tensor in graph.sparse_initializer:
            yield from (tensor.values, tensor.indices)
    yield from attribute_tensors(model)


def sort_nodes(model: onnx.ModelProto) -> list[str]:
    """Put each node after those whose outputs it reads; tools that insert nodes often append them.

    ONNX requires that order. Graphs with cycles stay as they are.

    Returns:
        A sentence for each change.
    """
    inside_out = (*reversed(list(graphs(model))), *model.functions)  # sorting copies nodes with what is nested in them
    changed = [_sort(owner) for owner in inside_out]
    return [SORTED] if any(changed) else []


def _sort(owner: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Returns whether anything was out of order."""
    makers = {output: index for index, node in enumerate(owner.node) for output in node.output if output}
    needs = {index: {makers[name] for name in _read(node) & makers.keys()} for index, node in enumerate(owner.node)}
    if all(maker < index for index, before in needs.items() for maker in before):
        return False
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError:
        return False
    ordered = [owner.node[index] for index in order]
    del owner.node[:]
    owner.node.extend(ordered)
    return True


def _read(node: onnx.NodeProto) -> set[str]:
    """Returns the names of the tensors that a node reads, including its nested graphs."""
    inner = (each for graph in below([node]) for each in graph.node)
    outputs = (output.name for graph in below([node]) for output in graph.output)
    return {name for each in (node, *inner) for name in each.input}.union(outputs)


def _iterate_below(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    yield from below(graph.node)


def below(some: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Yields the graphs nested in these nodes, at all levels."""
    for node in some:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _iterate_below(attribute.g)
            for graph in attribute.graphs:
                yield from _iterate_below(graph)
