"""Returns parts of a QDQ model to float: QuantizeLinear and DequantizeLinear are replaced by what they represent."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.host.calibration import Range


def become_identity(node: Any, tensor: str) -> None:
    """Make a node pass on a tensor.

    Args:
        node: onnx.NodeProto; keeps its output.
        tensor: the tensor that it passes on.
    """
    from onnx import helper

    node.CopyFrom(helper.make_node("Identity", [tensor], [node.output[0]], node.name))


def become_bound(node: Any, tensor: str, bounds: Range, number_type: Any) -> list[Any]:
    """Make a node clip a tensor where the removed rounding has clipped it.

    Args:
        node: onnx.NodeProto; keeps its output.
        tensor: the tensor that it clips.
        bounds: lowest and highest value; infinite for none.
        number_type: NumPy's type of the tensor.

    Returns:
        The constants that the node reads (onnx.TensorProto).
    """
    from onnx import helper, numpy_helper

    limits = np.clip(bounds, np.finfo(number_type).min, np.finfo(number_type).max).astype(number_type)
    names = [f"{node.output[0]}_{end}" for end in ("low", "high")]
    node.CopyFrom(helper.make_node("Clip", [tensor, *names], [node.output[0]], node.name))
    return [numpy_helper.from_array(np.array(value), name) for value, name in zip(limits, names, strict=True)]


def drop_unread(model: Any) -> None:
    """Remove QuantizeLinear nodes and constants (of an onnx.ModelProto) that nothing reads anymore."""
    graph, outputs = model.graph, {output.name for output in model.graph.output}
    read = outputs | _read(model)
    nodes = [node for node in graph.node if node.op_type != "QuantizeLinear" or node.output[0] in read]
    del graph.node[:]
    graph.node.extend(nodes)
    read = outputs | _read(model)
    constants = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(constants)


def _read(model: Any) -> set[str]:
    """Returns the tensors that a node reads or that a nested graph outputs."""
    inner = {output.name for graph in walk.graphs(model) for output in graph.output}
    return inner.union(name for node in walk.nodes(model) for name in node.input)
