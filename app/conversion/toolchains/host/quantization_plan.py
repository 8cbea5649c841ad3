"""Which nodes of a model become int8, and which activations therefore need ranges.

Post-processing stays in float: the operators after the last weighted layer (softmax, box decoding, the concatenation of
boxes in pixels with scores in 0..1) gain nothing from int8 and can lose everything, because one scale would have to
serve both. The outputs of the weighted layers themselves are int8, as an NPU returns them. This is a choice, so the
report states it.
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.conversion.options import HostQuantization
from app.conversion.toolchains.graph import opset_of
from app.conversion.toolchains.graph.walk import below
from app.conversion.toolchains.host.calibration import element_types, is_moderate
from app.conversion.toolchains.host.fused_activations import FUSED_ACTIVATIONS, bounds_of, holds_zero
from app.conversion.toolchains.host.graph_surgery import operator_counts
from app.conversion.toolchains.host.logarithm_features import logarithm_features
from app.conversion.toolchains.host.output_saturation import MOVES
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Layers that benefit from int8 arithmetic."""
PRODUCTS = frozenset({"MatMul", "Einsum"})
ATTENTION = frozenset({"Attention", "MultiHeadAttention"})
ARRANGING = MOVES | {"Cast", "Concat", "Div", "Dropout", "Expand", "Mul", "Slice", "Split", "Where"}
"""What may be between the weights of attention and the product that reads them: PyTorch's exporter replaces NaN of rows
that are masked entirely by a Where, others drop out, mask and divide again, or exchange axes."""
ALREADY_QUANTIZED = frozenset({"QuantizeLinear", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear"})
FLOATS = (1, 10)
"""TensorProto's float32 and float16."""
TAIL_REASON = "post-processing after the last weighted layer stays in float"


@dataclass(frozen=True)
class QuantizationPlan:
    """Which nodes of a model become int8."""

    nodes: tuple[str, ...]
    """Names of the nodes that become int8, in graph order."""
    tail: tuple[Any, ...]
    """Nodes left in float as post-processing, in graph order."""
    tensors: tuple[str, ...]
    """Float activations around those nodes, whose ranges calibration has to determine."""
    problem: str = ""
    """Why nothing can be quantized; empty if something can."""

    def tail_report(self) -> JsonObject:
        counts: dict[str, int] = {}
        for node in self.tail:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        return {"nodes": len(self.tail), "operators": counts, "reason": TAIL_REASON if self.tail else ""}


def plan(model: Any, options: HostQuantization) -> QuantizationPlan:
    """Decide what to quantize.

    Raises:
        StageFailed: exclude_nodes has a name that is not in the graph.
    """
    check_excluded(model, options.exclude_nodes)
    tail = _find_tail(model)
    if ALREADY_QUANTIZED & set(operator_counts(model)):
        return QuantizationPlan((), tail, (), "the model is quantized already and was kept as it is")
    if opset_of(model) < 10:
        return QuantizationPlan(
            (), tail, (), f"opset {opset_of(model)} has no quantization operators; the model stays in float"
        )
    left_out = {node.name for node in tail} | set(options.exclude_nodes) | logarithm_features(model, WEIGHTED)
    return _plan_without(model, left_out, _find_odd_constants(model))


def without_tensors(model: Any, chosen: QuantizationPlan, tensors: Container[str]) -> QuantizationPlan:
    """The plan without the nodes that touch these tensors, which stay in float."""
    left_out = {node.name for node in model.graph.node} - set(chosen.nodes)
    return _plan_without(model, left_out, tensors)


def of_weighted_layers(model: Any, chosen: QuantizationPlan) -> QuantizationPlan:
    """The plan without all nodes but the weighted layers."""
    weighted = {node.name for node in model.graph.node if node.op_type in WEIGHTED} & set(chosen.nodes)
    return _plan_without(model, {node.name for node in model.graph.node} - weighted, ())


def _plan_without(model: Any, nodes: Container[str], tensors: Container[str]) -> QuantizationPlan:
    tail, quantizable = _find_tail(model), quantizable_operators()
    if _has_attention(model):
        quantizable = quantizable & WEIGHTED
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    chosen = [
        node
        for node in model.graph.node
        if node.op_type in quantizable
        and node.name not in nodes
        and _keeps_values(node, constants)
        and not any(name in tensors for name in (*node.input, *node.output))
    ]
    if not any(node.op_type in WEIGHTED for node in chosen):
        return QuantizationPlan((), tail, (), f"no node to quantize: {_describe_lack(model)}")
    return QuantizationPlan(tuple(node.name for node in chosen), tail, _list_activations(model, chosen))


def _describe_lack(model: Any) -> str:
    """Returns why nothing can be quantized: the layers are in branches, or there are none."""
    outer = sorted({node.op_type for node in model.graph.node if any(map(_has_layers, below([node])))})
    if outer:
        return f"the layers are inside {' and '.join(outer)}, where they stay in float; a model without it is quantized"
    return f"the graph has none of {', '.join(sorted(WEIGHTED))} to use"


def _has_layers(graph: Any) -> bool:
    return any(node.op_type in WEIGHTED for node in graph.node)


def _keeps_values(node: Any, constants: Mapping[str, Any]) -> bool:
    """Returns whether the quantizer handles this node correctly. It omits a Clip as if its range included zero, and
    gives the output of a Resize the range of its input, which a cubic one exceeds."""
    if node.op_type in FUSED_ACTIVATIONS:
        return holds_zero(bounds_of(node, constants))
    return not (node.op_type == "Resize" and any(attribute.s == b"cubic" for attribute in node.attribute))


def _find_odd_constants(model: Any) -> set[str]:
    """Returns float constants that no scale can represent: empty ones, and those with a NaN or an infinity."""
    from onnx import numpy_helper

    unread = {name for node in model.graph.node if node.op_type == "Resize" for name in node.input[1:]}
    arrays = (
        (tensor.name, numpy_helper.to_array(tensor))
        for tensor in model.graph.initializer
        if tensor.data_type in FLOATS and tensor.name not in unread
    )
    return {name for name, array in arrays if array.size == 0 or not is_moderate(array)}


def _has_attention(model: Any) -> bool:
    """Returns whether a matrix product reads a Softmax, perhaps arranged or masked, or attention is one operator.
    Between such layers int8 costs much accuracy and saves no time."""
    weights: set[str] = set()
    for node in model.graph.node:  # in the order in which they run
        is_read = bool(weights & set(node.input))
        if node.op_type in ATTENTION or (is_read and node.op_type in PRODUCTS):
            return True
        if node.op_type == "Softmax" or (is_read and node.op_type in ARRANGING):
            weights.update(node.output)
    return False


def check_excluded(model: Any, names: Sequence[str]) -> None:
    """Checks the names of excluded nodes.

    Raises:
        StageFailed: No node of out.onnx has one of these names; the hint has the nearest that exist.
    """
    node_names = [node.name for node in model.graph.node]
    unknown = [name for name in names if name not in set(node_names)]
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], node_names, n=3)
    other = "Node names are those of the ONNX stage's out.onnx; simplifying may have merged or renamed nodes."
    raise StageFailed(
        f"exclude_nodes names no node of out.onnx: {', '.join(unknown[:10])}",
        hint=f"Nearest names: {', '.join(near)}." if near else other,
        detail={"unknown": unknown[:100]},
    )


def _find_tail(model: Any) -> tuple[Any, ...]:
    """Returns the nodes that lead to no weighted layer, except activations that belong to one."""
    needed: set[str] = set()
    makers: dict[str, Any] = {name: node for node in model.graph.node for name in node.output}
    tail = []
    for node in reversed(model.graph.node):
        if node.op_type in WEIGHTED or needed & set(node.output):
            needed.update(node.input)
        elif not _is_fused_activation(node, makers):
            tail.append(node)
    return tuple(reversed(tail))


def _is_fused_activation(node: Any, makers: dict[str, Any]) -> bool:
    maker = makers.get(node.input[0]) if node.input else None
    return node.op_type in FUSED_ACTIVATIONS and maker is not None and maker.op_type in WEIGHTED


def _list_activations(model: Any, nodes: Sequence[Any]) -> tuple[str, ...]:
    from onnx import TensorProto

    weights = {tensor.name for tensor in model.graph.initializer}
    floats = {n for n, kind in element_types(model).items() if kind in (TensorProto.FLOAT, TensorProto.FLOAT16)}
    around = (name for node in nodes for name in (*node.input, *node.output))
    return tuple(dict.fromkeys(name for name in around if name in floats and name not in weights))


def quantizable_operators() -> set[str]:
    """Returns the types of operators that onnxruntime's quantizer can do."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return set(QDQRegistry) | set(QLinearOpsRegistry)
