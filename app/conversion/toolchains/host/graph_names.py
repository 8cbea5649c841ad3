"""Names in a graph: each node has its own, no tensor one that the quantizer adds; simplified graphs keep theirs.

Each function changes a ModelProto, and most describe the change.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from app.conversion.toolchains.graph import walk

Model = Any
"""onnx.ModelProto"""
QUANTIZERS_SUFFIXES = tuple(
    f"_{ending}"
    for ending in (
        "quantized",
        "scale",
        "zero_point",
        *(f"{node}Linear_{end}" for node in ("Quantize", "Dequantize") for end in ("Input", "Output")),
    )
)
"""Suffixes of the names that the quantizer adds."""


def name_nodes(model: Model) -> list[str]:
    """Give every node a unique name: the quantizer and the report name nodes."""
    taken = Counter(node.name for node in model.graph.node)
    seen: set[str] = set()
    renamed = 0
    for index, node in enumerate(model.graph.node):
        if node.name and (taken[node.name] == 1 or node.name not in seen):
            seen.add(node.name)
            continue
        node.name = _choose_free_name(f"{node.op_type}_{index}", taken)
        taken[node.name] += 1
        seen.add(node.name)
        renamed += 1
    return [f"{renamed} nodes without a unique name got one"] if renamed else []


def rename_tensors(model: Model) -> list[str]:
    """Renames inner tensors that have the names of those that the quantizer will add, as in a model that was quantized
    before."""
    graph = model.graph
    inner = {output for node in graph.node for output in node.output} | {tensor.name for tensor in graph.initializer}
    names = inner | {value.name for value in graph.input}
    fixed = {value.name for value in (*graph.input, *graph.output)}
    clashing = [
        name
        for name in sorted(inner - fixed)
        if any(name.endswith(suffix) and name.removesuffix(suffix) in names for suffix in QUANTIZERS_SUFFIXES)
    ]
    taken = Counter(names)
    new = {name: _choose_free_name(f"{name}_original", taken) for name in clashing}
    for node in walk.nodes(model) if new else ():
        for part in (node.input, node.output):
            for place, name in enumerate(part):
                part[place] = new.get(name, name)
    for value in chain(graph.initializer, graph.value_info):
        value.name = new.get(value.name, value.name)
    return [f"{len(new)} tensors have other names: theirs are the quantizer's"] if new else []


BIASED = frozenset({"Conv", "ConvTranspose", "Gemm"})
BIAS = 2
"""Place of the bias among their inputs."""


def copy_shared_biases(model: Model) -> list[str]:
    """Gives each layer a bias of its own. The quantizer does so, too, but by a name that another tensor may have: that
    of a bias "conv" may be "conv2"."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    taken = Counter([*tensors, *(name for node in graph.node for name in (*node.input, *node.output))])
    seen: set[str] = set()
    copied = 0
    for node in graph.node:
        name = node.input[BIAS] if node.op_type in BIASED and len(node.input) > BIAS else ""
        if name in seen and name in tensors:
            node.input[BIAS] = _choose_free_name(f"{name}_copy", taken)
            taken[node.input[BIAS]] += 1
            graph.initializer.add().CopyFrom(tensors[name])
            graph.initializer[-1].name = node.input[BIAS]
            copied += 1
        seen.add(name)
    return [f"{copied} layers that shared a bias have copies of it"] if copied else []


def restore_names(model: Model, original: Model) -> None:
    """Restore the names of nodes that a simplifier renamed, such as a Conv that absorbed its BatchNormalization.

    The name is that of the nearest node with the same operator upstream of the same output in the original graph. If
    that has none, or it is taken, the node stays without a name.
    """
    makers = {output: node for node in original.graph.node for output in node.output}
    names = {node.name for node in original.graph.node}
    taken = {node.name for node in model.graph.node} & names
    for node in model.graph.node:
        if node.name and node.name in names:
            continue
        before = _same_operator_upstream(node, makers)
        node.name = before.name if before is not None and before.name not in taken else ""
        taken.add(node.name)


def _same_operator_upstream(node: Any, makers: dict[str, Any]) -> Any | None:
    before = makers.get(node.output[0]) if node.output else None
    while before is not None and before.op_type != node.op_type:
        before = makers.get(before.input[0]) if before.input else None
    return before


def _choose_free_name(wish: str, taken: Counter[str]) -> str:
    name, number = wish, 1
    while taken[name]:
        name, number = f"{wish}_{number}", number + 1
    return name
