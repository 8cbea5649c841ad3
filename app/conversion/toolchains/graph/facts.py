"""What there is to say about a graph without running it."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import onnx

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.macs import macs
from app.conversion.toolchains.graph.specs import DEFAULT_DOMAINS, TensorSpec, graph_inputs, graph_outputs, opset_of


def facts(model: onnx.ModelProto) -> dict[str, Any]:
    """JSON-able: inputs, outputs [{name, shape, dtype}], opset, opsets {domain: version}, ir_version, producer,
    operators {type: count, nested graphs included}, nodes, parameters (elements of all stored tensors), macs (or None).
    """
    operators = Counter(operator_name(node) for node in walk.nodes(model))
    return {
        "inputs": [described(spec) for spec in graph_inputs(model)],
        "outputs": [described(spec) for spec in graph_outputs(model)],
        "opset": opset_of(model),
        "opsets": {entry.domain or "ai.onnx": int(entry.version) for entry in model.opset_import},
        "ir_version": int(model.ir_version),
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
        "nodes": operators.total(),
        "parameters": _parameters(model),
        "macs": macs(model),
    }


def described(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}


def operator_name(node: onnx.NodeProto) -> str:
    """Conv; for operators of other domains com.microsoft.FusedConv."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"


def _parameters(model: onnx.ModelProto) -> int:
    stored = [tensor for graph in walk.graphs(model) for tensor in graph.initializer]
    sparse = [tensor.values for graph in walk.graphs(model) for tensor in graph.sparse_initializer]
    return sum(prod(tensor.dims) for tensor in [*stored, *sparse, *walk.attribute_tensors(model)])
