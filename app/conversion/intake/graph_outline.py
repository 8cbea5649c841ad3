"""A sandbox entry point: the nodes of a job's graphs and their connections, without weights.

Quantization is folded into the nodes: QuantizeLinear and DequantizeLinear determine the bit width of the node between
them. Hostile files can harm only a child.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from app.conversion.intake.entry_points import Outline, OutlineNode, OutlinesRequest
from app.conversion.toolchains.base import Progress
from app.inference.errors import InvalidModel

NODES_MOST = 1500
"""Graphs with more nodes are not drawn."""
FOLDED = frozenset({"QuantizeLinear", "DequantizeLinear"})
BITS = {
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT8: "int8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.UINT16: "int16",
}


def outline_graphs(request: OutlinesRequest, progress: Progress) -> dict[str, Outline]:
    """Extract the outlines of several graphs, by name; without nodes where there are more than NODES_MOST."""
    outlines = {}
    for index, (name, path) in enumerate(request["graphs"].items()):
        progress(index / len(request["graphs"]), name)
        outlines[name] = _read_outline(Path(path))
    return outlines


def _read_outline(path: Path) -> Outline:
    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except Exception as error:  # protobuf's errors have no public base class
        raise InvalidModel(f"{path.name} cannot be read as a graph") from error
    kept = [node for node in graph.node if node.op_type not in FOLDED and node.op_type != "Constant"]
    if len(kept) > NODES_MOST:
        return {"nodes": [], "total": len(kept)}
    aliases, bits = _map_quantized(graph)
    makers = {output: index for index, node in enumerate(kept) for output in node.output if output}
    return {"nodes": [_outline_node(node, aliases, bits, makers) for node in kept], "total": len(kept)}


def _outline_node(
    node: Any, aliases: Mapping[str, str], bits: Mapping[str, str], makers: Mapping[str, int]
) -> OutlineNode:
    sources = {makers[root] for name in node.input if (root := aliases.get(name, name)) in makers}
    widths = [bits[name] for name in node.input if name in bits]
    return {
        "name": node.name,
        "op": node.op_type,
        "outputs": [name for name in node.output if name],
        "sources": sorted(sources),
        "bits": min(widths, key=("int16", "int8").index) if widths else "float",
    }


def _map_quantized(graph: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the original tensor of each quantized or dequantized one, and the bit width of those that were
    dequantized."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    aliases: dict[str, str] = {}
    bits: dict[str, str] = {}
    for node in graph.node:
        if node.op_type not in FOLDED or not node.input or not node.output:
            continue
        aliases[node.output[0]] = aliases.get(node.input[0], node.input[0])
        zero = types.get(node.input[2]) if len(node.input) > 2 else None
        if node.op_type == "DequantizeLinear":
            bits[node.output[0]] = BITS.get(zero if zero is not None else onnx.TensorProto.INT8, "int8")
    return aliases, bits
