"""Which nodes become int8, and the quantization itself: QDQ by onnxruntime's quantizer, ranges by `calibration`.

Post-processing stays in float: the operators after the last weighted layer (softmax, box decoding, the concatenation of
boxes in pixels with scores in 0..1) gain nothing from int8 and can lose everything, because one scale would have to
serve both. The outputs of the weighted layers themselves are int8, as an NPU returns them. This is a choice, so the
report states it.
"""

from __future__ import annotations

import copy
import difflib
import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.conversion.options import HostQuantization
from app.conversion.toolchains.graph import opset_of, sort_nodes
from app.conversion.toolchains.host.calibration import Range, element_types, is_moderate
from app.conversion.toolchains.host.fused_activations import FUSED_ACTIVATIONS, bounds_of, holds_zero
from app.conversion.toolchains.host.graph_surgery import OPSET_FLOAT16, has_float16, operator_counts
from app.conversion.toolchains.host.logarithm_features import logarithm_features
from app.kit.sandbox.errors import StageFailed
from app.kit.text.plain_text import reason_of

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Layers that benefit from int8 arithmetic."""
ALREADY_QUANTIZED = frozenset({"QuantizeLinear", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear"})
PER_CHANNEL_OPSET = 13
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

    def tail_report(self) -> dict[str, Any]:
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
    tail = _tail(model)
    if ALREADY_QUANTIZED & set(operator_counts(model)):
        return QuantizationPlan((), tail, (), "the model is quantized already and was kept as it is")
    if opset_of(model) < 10:
        return QuantizationPlan(
            (), tail, (), f"opset {opset_of(model)} has no quantization operators; the model stays in float"
        )
    left_out = {node.name for node in tail} | set(options.exclude_nodes) | logarithm_features(model, WEIGHTED)
    return _plan_without(model, left_out, _odd_constants(model))


def without_tensors(model: Any, chosen: QuantizationPlan, tensors: Container[str]) -> QuantizationPlan:
    """The plan without the nodes that touch these tensors, which stay in float."""
    left_out = {node.name for node in model.graph.node} - set(chosen.nodes)
    return _plan_without(model, left_out, tensors)


def _plan_without(model: Any, nodes: Container[str], tensors: Container[str]) -> QuantizationPlan:
    tail, quantizable = _tail(model), _quantizable_operators()
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
        return QuantizationPlan(
            (), tail, (), f"no node to quantize: the graph has none of {', '.join(sorted(WEIGHTED))} to use"
        )
    return QuantizationPlan(tuple(node.name for node in chosen), tail, _activations(model, chosen))


def _keeps_values(node: Any, constants: Mapping[str, Any]) -> bool:
    """Returns whether the quantizer handles this node correctly. It omits a Clip as if its range included zero, and
    gives the output of a Resize the range of its input, which a cubic one exceeds."""
    if node.op_type in FUSED_ACTIVATIONS:
        return holds_zero(bounds_of(node, constants))
    return not (node.op_type == "Resize" and any(attribute.s == b"cubic" for attribute in node.attribute))


def _odd_constants(model: Any) -> set[str]:
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
    """Returns whether a matrix product reads a Softmax. Between such layers int8 costs much accuracy and saves no
    time."""
    weights = {name for node in model.graph.node if node.op_type == "Softmax" for name in node.output}
    return any(node.op_type == "MatMul" and weights & set(node.input) for node in model.graph.node)


def check_excluded(model: Any, names: Sequence[str]) -> None:
    """Raise StageFailed for names that no node of out.onnx has, with the nearest that exist."""
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


def quantize(
    model: Any, ranges: dict[str, Range], chosen: QuantizationPlan, options: HostQuantization
) -> tuple[Any, QuantizationPlan, list[str]]:
    """Quantize a model. If it cannot be quantized per channel, it is quantized per tensor, and if that fails, only its
    weighted layers are; each with a warning.

    Args:
        model: onnx.ModelProto, float; stays as it is.
        ranges: of activations, by tensor.
        chosen: which nodes are quantized.

    Returns:
        The int8 QDQ model (onnx.ModelProto), what of it is quantized, and warnings.

    Raises:
        StageFailed: The weighted layers fail, too.
    """
    try:
        return _as_fine_as_can_be(model, ranges, chosen, options)
    except StageFailed as error:
        weighted = {node.name for node in model.graph.node if node.op_type in WEIGHTED} & set(chosen.nodes)
        fewer = _plan_without(model, {node.name for node in model.graph.node} - weighted, ())
        if fewer.nodes == chosen.nodes:
            raise
        done, _, warnings = _as_fine_as_can_be(model, ranges, fewer, options)
        return done, fewer, [*warnings, f"only weighted layers are quantized: {error.message}"]


def _as_fine_as_can_be(
    model: Any, ranges: dict[str, Range], chosen: QuantizationPlan, options: HostQuantization
) -> tuple[Any, QuantizationPlan, list[str]]:
    if not options.per_channel:
        return _quantized(model, ranges, chosen, options, per_channel=False), chosen, []
    if opset_of(model) < PER_CHANNEL_OPSET:
        why = f"per channel needs opset {PER_CHANNEL_OPSET}, this is {opset_of(model)}"
    else:
        try:
            return _quantized(model, ranges, chosen, options, per_channel=True), chosen, []
        except StageFailed as error:
            why = f"per channel {error.message}"
    done = _quantized(model, ranges, chosen, options, per_channel=False)
    return done, chosen, [f"weights are quantized per tensor: {why}"]


def _quantized(
    model: Any, ranges: dict[str, Range], chosen: QuantizationPlan, options: HostQuantization, *, per_channel: bool
) -> Any:
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import add_infer_metadata

    model, outputs = _without_passed_through(model)
    types = element_types(model)
    data = {name: tuple(np.array(v, dtype=_float_type(types[name])) for v in pair) for name, pair in ranges.items()}
    add_infer_metadata(model)  # its shapes are inferred; else the quantizer writes it to disk to do that again
    with _quiet():
        try:
            quantizer = QDQQuantizer(
                model,
                per_channel,
                False,
                QuantType.QInt8,
                QuantType.QInt8 if options.activation == "int8" else QuantType.QUInt8,
                TensorsData(CalibrationMethod.MinMax, data),
                list(chosen.nodes),
                [],
                sorted(_quantizable_operators()),
                _extra_options(model, chosen),
            )
            quantizer.quantize_model()
            done = quantizer.model.model
            sort_nodes(done)  # it appends new nodes, but other tools need the order of ONNX
            del done.graph.output[:]
            done.graph.output.extend(outputs)
            return done
        except (ValueError, TypeError, LookupError, RuntimeError, AssertionError) as error:
            raise StageFailed(
                f"onnxruntime's quantizer failed: {reason_of(error)}",
                hint="Try another method, or leave the layers it cannot do in float with exclude_nodes.",
            ) from error


def _without_passed_through(model: Any) -> tuple[Any, list[Any]]:
    """Returns a copy without the outputs that are inputs as well, which the quantizer would duplicate; and all
    outputs."""
    fresh = copy.deepcopy(model)
    outputs, inputs = list(model.graph.output), {value.name for value in model.graph.input}
    del fresh.graph.output[:]
    fresh.graph.output.extend(output for output in outputs if output.name not in inputs)
    return fresh, outputs


def _extra_options(model: Any, chosen: QuantizationPlan) -> dict[str, Any]:
    """Asymmetric activations use all 256 levels behind a ReLU; symmetric weights are what integer kernels want.

    A constant of MatMul has its channels on the last axis of a matrix on the right; the quantizer always takes axis 1,
    and the runtime refuses that for any other constant, so those are quantized per tensor. Where the opset's own
    operators do not take float16 yet, onnxruntime's do.
    """
    from onnxruntime.quantization import QuantType

    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    names = set(chosen.nodes)
    multiplied = [node for node in model.graph.node if node.op_type == "MatMul" and node.name in names]
    odd = {node.input[0] for node in multiplied} | {n.input[1] for n in multiplied if ranks.get(n.input[1]) != 2}
    per_tensor = {name: [{"quant_type": QuantType.QInt8}] for name in sorted(odd) if name in ranks}
    return {
        "ActivationSymmetric": False,
        "WeightSymmetric": True,
        "TensorQuantOverrides": per_tensor,
        "UseQDQContribOps": opset_of(model) < OPSET_FLOAT16 and has_float16(model),
    }


def _tail(model: Any) -> tuple[Any, ...]:
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


def _activations(model: Any, nodes: Sequence[Any]) -> tuple[str, ...]:
    from onnx import TensorProto

    weights = {tensor.name for tensor in model.graph.initializer}
    floats = {n for n, kind in element_types(model).items() if kind in (TensorProto.FLOAT, TensorProto.FLOAT16)}
    around = (name for node in nodes for name in (*node.input, *node.output))
    return tuple(dict.fromkeys(name for name in around if name in floats and name not in weights))


def _quantizable_operators() -> set[str]:
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return set(QDQRegistry) | set(QLinearOpsRegistry)


def _float_type(element_type: int) -> Any:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(element_type)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the quantizer, which logs to the root logger; what it prints would be in this stage's log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
