"""An ONNX file as a network."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from app.conversion.toolchains import graph as onnx_graph
from app.conversion.toolchains.host import provenance
from app.conversion.toolchains.host.canonical.network import Graph, Network, Node

OF_FILES_BEFORE = frozenset({provenance.ONNX_SHA256})
"""Digests of files that are compared by themselves."""


def read_onnx(path: Path) -> Network:
    """Raises what reading a model raises."""
    model = onnx_graph.load(path)
    facts = {f"metadata {key}": text for key, text in provenance.read(model).items() if key not in OF_FILES_BEFORE}
    facts |= {f"opset {opset.domain or 'ai.onnx'}": str(opset.version) for opset in model.opset_import}
    facts["IR version"] = str(model.ir_version)
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        facts |= {f"{kind} {value.name}": _bytes_digest(value.type) for value in values}
    return Network(_graph(model.graph), facts)


def _graph(graph: Any) -> Graph:
    constants = {tensor.name: _tensor(tensor) for tensor in graph.initializer}
    constants |= {sparse.values.name: _bytes_digest(sparse) for sparse in graph.sparse_initializer}
    return Graph(
        tuple(value.name for value in graph.input if value.name not in constants),
        tuple(value.name for value in graph.output),
        constants,
        tuple(_node(node) for node in graph.node),
    )


def _node(node: Any) -> Node:
    import onnx

    attributes: dict[str, str | Graph] = {}
    for one in node.attribute:
        if one.type == onnx.AttributeProto.GRAPH:
            attributes[one.name] = _graph(one.g)
        elif one.type == onnx.AttributeProto.TENSOR:
            attributes[one.name] = _tensor(one.t)
        else:
            attributes[one.name] = _bytes_digest(one)
    return Node(f"{node.domain or 'ai.onnx'}.{node.op_type}", attributes, tuple(node.input), tuple(node.output))


def _tensor(tensor: Any) -> str:
    """By its numbers: a file may have them raw or one by one."""
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    content = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
    head = f"{tensor.data_type}:{list(tensor.dims)}:".encode()
    return hashlib.sha256(head + content).hexdigest()


def _bytes_digest(message: Any) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()
