"""A QDQ model built once by onnxruntime's quantizer, with changeable ranges, bit widths and biases.

Building a candidate copies the template and writes other numbers into it, which takes milliseconds instead of the
seconds of a new quantization. The result is a real file: the measured one is the delivered one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.conversion.options import HostQuantization
from app.conversion.toolchains.graph import opset_of
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.fused_activations import UNBOUNDED, bounds_of, is_fused_operator
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan
from app.conversion.toolchains.host.quantizer import quantize
from app.conversion.toolchains.host.search.float_parts import become_bound, become_identity, drop_unread
from app.conversion.toolchains.host.search.integers import (
    HEADROOM,
    INT8,
    INT16,
    INT32,
    SCALE_MIN,
    UINT16,
    activation_parameters,
    quantize_values,
    quantize_weight,
)

CONTRIB, OPSET_16_BIT = "com.microsoft", 21
"""ONNX's own QuantizeLinear supports 16 bits since this opset; below it onnxruntime's is used."""
BIAS_INPUT = 2
BIAS_MOST = float(1 << 30)
"""Largest integer of a bias with a separate scale."""
RENAMED = "_QuantizeLinear_Input"
"""The suffix of a quantized graph output before its QuantizeLinear."""


@dataclass(frozen=True)
class Activation:
    """Tensors that share one scale, and so one range and bit width, such as the input and output of a Reshape."""

    scale: str
    zero_point: str
    tensors: tuple[str, ...]
    """Names in the float model."""
    bounds: Range = UNBOUNDED
    """Bounds of the Relu or Clip before it that the quantizer removed, since rounding clips there."""
    constants: tuple[tuple[str, str], ...] = ()
    """Constants with the same scale, such as the table of a Gather: name in the float model, name of the integers."""

    @property
    def name(self) -> str:
        return self.tensors[0]


@dataclass(frozen=True)
class Weight:
    name: str
    """Name in the float model."""
    quantized: str
    scale: str
    zero_point: str
    dequantizer: str
    """Output of its DequantizeLinear."""
    axis: int
    layer: str
    """The first node that reads it."""


@dataclass(frozen=True)
class Bias:
    name: str
    quantized: str
    scale: str
    dequantized: str
    layer: str
    activation: str
    """Name of the Activation that its layer reads; empty if it stays in float."""
    result: str
    """Name of the Activation that its layer writes; empty if it stays in float."""
    weight: str


@dataclass(frozen=True)
class Precision:
    """Differences from the template.

    Args:
        ranges: of every activation, by its name.
        wide: activations in uint16.
        wide_weights: weights in int16.
        exact: activations and weights that stay in float.
        biases: correction that is added to a bias, by the bias's name.
        headroom: of ranges in uint16.
    """

    ranges: Mapping[str, Range]
    wide: frozenset[str] = frozenset()
    wide_weights: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    biases: Mapping[str, Array] = field(default_factory=dict)
    headroom: float = HEADROOM


class Template:
    """The quantized model of which candidates are copies; StageFailed is raised if onnxruntime cannot make it."""

    def __init__(
        self, float_model: Any, plan: QuantizationPlan, ranges: dict[str, Range], options: HostQuantization
    ) -> None:
        from onnx import numpy_helper

        self.float_model = float_model
        self.model, self.plan, self.warnings = quantize(float_model, ranges, plan, options)
        self._float = {tensor.name: tensor for tensor in float_model.graph.initializer}
        self._constants = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self._array = numpy_helper.to_array
        self._readers: dict[str, Any] = {}
        for node in self.model.graph.node:
            for name in node.input:
                self._readers.setdefault(name, node)
        self.activations = self._find_activations()
        self.weights, self.biases = self._find_constants()

    def with_weights(self, integers: Mapping[str, Array]) -> Template:
        """Returns the same template with other integers for these weights, by name."""
        changed = copy.copy(self)
        changed.model = copy.deepcopy(self.model)
        editor = _Editor(changed.model)
        for weight in self.weights:
            if weight.name in integers:
                editor.write(weight.quantized, integers[weight.name])
        changed._constants = {tensor.name: tensor for tensor in changed.model.graph.initializer}
        return changed

    def with_model(self, float_model: Any) -> Template:
        """Returns the same template for a float model with other constants of the same shapes."""
        changed = copy.copy(self)
        changed.float_model, changed.model = float_model, copy.deepcopy(self.model)
        changed._float = {tensor.name: tensor for tensor in float_model.graph.initializer}
        editor, weights = _Editor(changed.model), {weight.name: weight for weight in self.weights}
        for name, tensor in changed._float.items():
            if tensor == self._float[name]:
                continue
            if name in self._constants:  # a layer that stays in float reads it
                editor.write(name, changed.float_value(name))
            if name in weights:
                _write_weight(editor, weights[name], changed.float_value(name), INT8)
        changed._constants = {tensor.name: tensor for tensor in changed.model.graph.initializer}
        return changed

    def float_value(self, name: str) -> Array:
        values: Array = self._array(self._float[name])
        return values

    def limits_of(self, constant: str) -> Range:
        """Returns the lowest and the highest value of a constant of the float model."""
        values = self.float_value(constant)
        return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)

    def weight_scale(self, weight: Weight) -> Array:
        values: Array = self._array(self._constants[weight.scale])
        return values

    def dequantized(self, weight: Weight, *, is_wide: bool = False) -> Array:
        """Returns the weight after rounding to the template's integers, or to 16 bits."""
        integers, scale = self._array(self._constants[weight.quantized]), self.weight_scale(weight)
        if is_wide:
            axis = weight.axis if scale.ndim else None
            integers, scale = quantize_weight(self.float_value(weight.name), axis, INT16)
        return _scale(integers.astype(np.float32), scale, weight.axis)

    def build(self, precision: Precision) -> Any:
        """Builds a separate model (onnx.ModelProto)."""
        model = copy.deepcopy(self.model)
        editor = _Editor(model)
        scales: dict[str, float] = {}
        is_8_bit_type = self._get_activation_type()
        for activation in self.activations:
            is_wide = activation.name in precision.wide
            kind, headroom = (UINT16, precision.headroom) if is_wide else (is_8_bit_type, 1.0)
            scale, zero = activation_parameters(precision.ranges[activation.name], kind, activation.bounds, headroom)
            scales[activation.name] = scale
            for name, quantized in activation.constants:
                editor.write(quantized, quantize_values(self.float_value(name), scale, zero, kind))
            editor.write(activation.scale, np.array(scale, np.float32))
            editor.write(activation.zero_point, np.array(zero, kind))
        for weight in self.weights:
            if weight.name in precision.wide_weights:
                _write_weight(editor, weight, self.float_value(weight.name), INT16)
        self._write_biases(editor, precision, scales)
        self._use_contrib_operators(editor, precision)
        if precision.exact:
            self._leave_in_float(model, precision.exact)
        return model

    def _leave_in_float(self, model: Any, exact: frozenset[str]) -> None:
        """Replaces each DequantizeLinear by the float tensor, and removes what only it has read."""
        activations = {a.scale: a for a in self.activations if a.name in exact}
        integers = {weight.quantized: weight.name for weight in self.weights if weight.name in exact}
        integers |= {quantized: name for a in activations.values() for name, quantized in a.constants}
        makers = {name: node for node in model.graph.node for name in node.output}
        for node in [node for node in model.graph.node if node.op_type == "DequantizeLinear"]:
            source, activation = node.input[0], activations.get(node.input[1])
            if source in integers:
                constant = self._float[integers[source]]
                if all(known.name != constant.name for known in model.graph.initializer):
                    model.graph.initializer.append(constant)
                become_identity(node, constant.name)
            elif activation is not None and source in makers and activation.bounds == UNBOUNDED:
                become_identity(node, makers[source].input[0])
            elif activation is not None and source in makers:
                kind = self._array(self._constants[activation.scale]).dtype
                constants = become_bound(node, makers[source].input[0], activation.bounds, kind)
                model.graph.initializer.extend(constants)
        drop_unread(model)

    def _write_biases(self, editor: _Editor, precision: Precision, scales: Mapping[str, float]) -> None:
        by_name = {weight.name: weight for weight in self.weights}
        not_8_bits = precision.wide | precision.wide_weights | precision.exact
        for bias in self.biases:
            values = self.float_value(bias.name) + precision.biases.get(bias.name, np.float32(0.0))
            weight = by_name.get(bias.weight)
            wide = {bias.activation, bias.weight} & not_8_bits or {bias.result} & precision.wide
            if wide or weight is None or bias.activation not in scales:
                _write_own_scale(editor, bias, values)
                continue
            scale = self.weight_scale(weight).reshape(-1) * np.float32(scales[bias.activation])
            integers = np.rint(values.astype(np.float64) / np.maximum(scale, np.finfo(np.float32).tiny))
            if np.abs(integers).max(initial=0.0) > np.iinfo(INT32).max:
                _write_own_scale(editor, bias, values)
                continue
            editor.write(bias.quantized, integers.astype(INT32))
            editor.write(bias.scale, scale.astype(np.float32).reshape(editor.shape(bias.scale)))

    def _use_contrib_operators(self, editor: _Editor, precision: Precision) -> None:
        if opset_of(self.model) >= OPSET_16_BIT:
            return
        wide = {a.scale for a in self.activations if a.name in precision.wide}
        wide |= {w.scale for w in self.weights if w.name in precision.wide_weights}
        editor.use_domain(wide, CONTRIB)

    def _get_activation_type(self) -> Any:
        kinds = {self._array(self._constants[a.zero_point]).dtype for a in self.activations}
        return next(iter(kinds), np.dtype(np.uint8)).type

    def _find_activations(self) -> tuple[Activation, ...]:
        own = {name for node in self.float_model.graph.node for name in node.output}
        own |= {value.name for value in self.float_model.graph.input}
        shared: dict[tuple[str, str], list[str]] = {}
        constants: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for node in self.model.graph.node:
            tensor = node.input[0] if node.input[:1] and node.input[0] in own else _find_float_name(node)
            if node.op_type == "QuantizeLinear" and tensor in own:
                shared.setdefault((node.input[1], node.input[2]), []).append(tensor)
            name = tensor.removesuffix("_quantized")
            if node.op_type == "DequantizeLinear" and node.input[0] in self._constants and name in self._float:
                constants.setdefault((node.input[1], node.input[2]), []).append((name, node.input[0]))
        bounds = self._list_omitted_bounds()
        return tuple(
            Activation(*names, tuple(tensors), _find_narrowest(bounds, tensors), tuple(constants.get(names, ())))
            for names, tensors in shared.items()
        )

    def _list_omitted_bounds(self) -> dict[str, Range]:
        """Returns the bounds of each Relu and Clip that the quantizer removed, by their output."""
        kept = {node.output[0].removesuffix(RENAMED) for node in filter(is_fused_operator, self.model.graph.node)}
        nodes = filter(is_fused_operator, self.float_model.graph.node)
        return {node.output[0]: bounds_of(node, self._float) for node in nodes if node.output[0] not in kept}

    def _find_constants(self) -> tuple[tuple[Weight, ...], tuple[Bias, ...]]:
        weights, rows = [], []
        of_tensor = {tensor: a.name for a in self.activations for tensor in a.tensors}
        by_output = {node.output[0]: node for node in self.model.graph.node if node.output}
        for node in self.model.graph.node:
            if node.op_type != "DequantizeLinear" or node.input[0] not in self._constants:
                continue
            integers = self._constants[node.input[0]]
            name, axis = node.input[0].removesuffix("_quantized"), _get_axis(node)
            reader = self._readers.get(node.output[0])
            if name not in self._float or reader is None:
                continue
            if integers.data_type == 3:
                quantized, scale, zero_point = node.input
                weights.append(Weight(name, quantized, scale, zero_point, node.output[0], axis, reader.name))
            elif integers.data_type == 6 and len(reader.input) > BIAS_INPUT:
                rows.append((name, node, reader))
        by_dequantizer = {weight.dequantizer: weight.name for weight in weights}
        biases = [
            Bias(
                name,
                node.input[0],
                node.input[1],
                node.output[0],
                reader.name,
                of_tensor.get(self._find_quantized_source(by_output.get(reader.input[0])), ""),
                of_tensor.get(reader.output[0].removesuffix(RENAMED), ""),
                by_dequantizer.get(reader.input[1], ""),
            )
            for name, node, reader in rows
        ]
        return tuple(weights), tuple(biases)

    def _find_quantized_source(self, dequantizer: Any | None) -> str:
        """Returns the float tensor that a DequantizeLinear represents."""
        if dequantizer is None or dequantizer.op_type != "DequantizeLinear":
            return ""
        name = next((n.input[0] for n in self.model.graph.node if dequantizer.input[0] in n.output), "")
        return str(name).removesuffix(RENAMED)


class _Editor:
    """Writes numbers into a model."""

    def __init__(self, model: Any) -> None:
        self._graph, self._model = model.graph, model
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._constants[name].dims)

    def write(self, name: str, values: Array) -> None:
        from onnx import helper, numpy_helper

        before = self._constants[name]
        if values.dtype.kind == "f":  # scales have the type in which the graph computes
            values = values.astype(helper.tensor_dtype_to_np_dtype(before.data_type))
        before.CopyFrom(numpy_helper.from_array(values, name))

    def use_domain(self, scales: set[str], domain: str) -> None:
        changed = [n for n in self._graph.node if n.op_type in QDQ and n.input[1] in scales]
        for node in changed:
            node.domain = domain
        if changed and domain not in {entry.domain for entry in self._model.opset_import}:
            self._model.opset_import.add(domain=domain, version=1)


QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})


def _find_float_name(node: Any) -> str:
    """Returns the name of the float tensor that the node reads."""
    return str(node.input[0]).removesuffix(RENAMED) if node.input else ""


def _find_narrowest(bounds: Mapping[str, Range], tensors: Sequence[str]) -> Range:
    known = [bounds[tensor] for tensor in tensors if tensor in bounds]
    return max((low for low, _ in known), default=-np.inf), min((high for _, high in known), default=np.inf)


def _write_weight(editor: _Editor, weight: Weight, values: Array, kind: Any) -> None:
    integers, scale = quantize_weight(values, weight.axis if editor.shape(weight.scale) else None, kind)
    editor.write(weight.quantized, integers)
    editor.write(weight.scale, scale)
    editor.write(weight.zero_point, np.zeros(scale.shape, kind))


def _write_own_scale(editor: _Editor, bias: Bias, values: Array) -> None:
    """Writes a bias almost exactly, whatever the layer's scales are. onnxruntime itself would quantize a float bias,
    with a scale that is too small for an int32 if the layer is in 16 bits."""
    scale = max(float(np.abs(values).max(initial=0.0)) / BIAS_MOST, SCALE_MIN)
    editor.write(bias.quantized, np.rint(values.astype(np.float64) / scale).astype(INT32))
    editor.write(bias.scale, np.full(editor.shape(bias.scale), scale, np.float32))


def _get_axis(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "axis"), 1)


def _scale(values: Array, scale: Array, axis: int) -> Array:
    if scale.size > 1:
        shape = [1] * values.ndim
        shape[axis] = scale.size
        scale = scale.reshape(shape)
    result: Array = values * scale
    return result
