"""The quantization itself: QDQ by onnxruntime's quantizer, with ranges from `calibration`."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from app.conversion.options import HostQuantization
from app.conversion.toolchains.graph import opset_of, sort_nodes
from app.conversion.toolchains.host.calibration import Range, element_types
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan, of_weighted_layers, quantizable_operators
from app.kit.sandbox.errors import StageFailed
from app.kit.text.plain_text import reason_of

PER_CHANNEL_OPSET = 13


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
        fewer = of_weighted_layers(model, chosen)
        if fewer.nodes == chosen.nodes:
            raise
        done, _, warnings = _as_fine_as_can_be(model, ranges, fewer, options)
        return done, fewer, [*warnings, f"only weighted layers are quantized: {error.message}"]


def _as_fine_as_can_be(
    model: Any, ranges: dict[str, Range], chosen: QuantizationPlan, options: HostQuantization
) -> tuple[Any, QuantizationPlan, list[str]]:
    if not options.per_channel:
        return _quantize(model, ranges, chosen, options, per_channel=False), chosen, []
    if opset_of(model) < PER_CHANNEL_OPSET:
        why = f"per channel needs opset {PER_CHANNEL_OPSET}, this is {opset_of(model)}"
    else:
        try:
            return _quantize(model, ranges, chosen, options, per_channel=True), chosen, []
        except StageFailed as error:
            why = f"per channel {error.message}"
    done = _quantize(model, ranges, chosen, options, per_channel=False)
    return done, chosen, [f"weights are quantized per tensor: {why}"]


def _quantize(
    model: Any, ranges: dict[str, Range], chosen: QuantizationPlan, options: HostQuantization, *, per_channel: bool
) -> Any:
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import add_infer_metadata

    model, outputs = _remove_passed_through(model)
    types = element_types(model)
    data = {
        name: tuple(np.array(v, dtype=_choose_float_type(types[name])) for v in pair) for name, pair in ranges.items()
    }
    add_infer_metadata(model)  # its shapes are inferred; else the quantizer writes it to disk to do that again
    with _silence():
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
                sorted(quantizable_operators()),
                _choose_extra_options(model, chosen),
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


def _remove_passed_through(model: Any) -> tuple[Any, list[Any]]:
    """Returns a copy without the outputs that are inputs as well, which the quantizer would duplicate; and all
    outputs."""
    fresh = copy.deepcopy(model)
    outputs, inputs = list(model.graph.output), {value.name for value in model.graph.input}
    del fresh.graph.output[:]
    fresh.graph.output.extend(output for output in outputs if output.name not in inputs)
    return fresh, outputs


def _choose_extra_options(model: Any, chosen: QuantizationPlan) -> dict[str, Any]:
    """Asymmetric activations use all 256 levels behind a ReLU; symmetric weights are what integer kernels want.

    A constant of MatMul has its channels on the last axis of a matrix on the right; the quantizer always takes axis 1,
    and the runtime refuses that for any other constant, so those are quantized per tensor. So are the weights of a
    ConvTranspose in groups, which have only the channels of one group on that axis.
    """
    from onnxruntime.quantization import QuantType

    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    names = set(chosen.nodes)
    multiplied = [node for node in model.graph.node if node.op_type == "MatMul" and node.name in names]
    odd = {node.input[0] for node in multiplied} | {n.input[1] for n in multiplied if ranks.get(n.input[1]) != 2}
    odd |= {
        n.input[1]
        for n in model.graph.node
        if n.op_type == "ConvTranspose" and _count_groups(n) > 1 and n.name in names
    }
    per_tensor = {name: [{"quant_type": QuantType.QInt8}] for name in sorted(odd) if name in ranks}
    return {
        "ActivationSymmetric": False,
        "WeightSymmetric": True,
        "TensorQuantOverrides": per_tensor,
    }


def _count_groups(node: Any) -> int:
    return next((int(one.i) for one in node.attribute if one.name == "group"), 1)


def _choose_float_type(element_type: int) -> Any:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(element_type)


@contextmanager
def _silence() -> Iterator[None]:
    """Silences the quantizer, which logs to the root logger; what it prints would be in this stage's log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
