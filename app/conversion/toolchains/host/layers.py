"""Per-layer losses of int8: every layer of out.onnx compared with the same layer of out.bie, all layers quantized
(errors add up).

This module matches and measures layers of the two graphs; it does not judge them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.host.calibration import bytes_with_outputs, element_types, tensor_sizes
from app.conversion.toolchains.host.fused_activations import FUSED_ACTIVATIONS
from app.conversion.toolchains.host.inputs import SampleArrays
from app.conversion.toolchains.host.quantization_plan import WEIGHTED
from app.conversion.toolchains.tensor_comparison import compare, is_finite, snr_db
from app.conversion.toolchains.tensor_statistics import TensorStatistics
from app.inference.runtimes.sessions import open_session, run
from app.kit.text.json_values import JsonObject

Array = npt.NDArray[Any]

LAYER_SAMPLES = 32
LAYER_BYTES_MAX = 256 << 20
"""Largest size of the inner tensors of one sample in one model. If there are more, layers with weights come first."""
DEQUANTIZED = "_DequantizeLinear_Output"
"""The suffix that onnxruntime's quantizer gives the int8 version of a tensor."""


@dataclass(frozen=True)
class MatchedLayer:
    """A node of out.onnx, the tensor at which it is measured in both graphs, and the activation merged into it, if
    any."""

    name: str
    op_type: str
    float_tensor: str
    int8_tensor: str
    is_int8: bool
    size_bytes: int
    merged: str = ""
    weight_snr_db: float | None = None


@dataclass(frozen=True)
class MatchedLayers:
    layers: list[MatchedLayer] = field(default_factory=list)
    left_out: int = 0


def match_layers(float_model: Any, int8_model: Any, int8_nodes: Iterable[str]) -> MatchedLayers:
    """Returns the layers that both graphs have, in graph order, as many as fit into LAYER_BYTES_MAX."""
    finder = _Finder(float_model, int8_model, set(int8_nodes))
    layers = [layer for node in float_model.graph.node if (layer := finder.find(node)) is not None]
    chosen, room = set(), LAYER_BYTES_MAX
    for layer in sorted(layers, key=lambda candidate: candidate.op_type not in WEIGHTED):
        if layer.size_bytes <= room:
            chosen.add(layer.name)
            room -= layer.size_bytes
    return MatchedLayers([layer for layer in layers if layer.name in chosen], len(layers) - len(chosen))


def measure_layers(
    float_model: Any, int8_model: Any, layers: list[MatchedLayer], samples: Iterable[SampleArrays], threads: int
) -> list[JsonObject]:
    """Measure the error at each layer over the samples.

    Both models run with their inner tensors as outputs; a pair of tensors is compared and let go at once. A NaN or an
    infinity inside a model is no failure as long as no output shows it: its sample counts as "not_finite" in the row.

    Args:
        float_model: onnx.ModelProto.
        int8_model: onnx.ModelProto.
        layers: names of the tensors that belong together; none: nothing is run.
        threads: of onnxruntime.

    Returns:
        [{name, op_type, int8, snr_db: {mean, min, p5, n}, cosine: {…}, max_abs, weight_snr_db}], a row for each layer.
    """
    statistics = {layer.name: TensorStatistics(layer.name) for layer in layers}
    not_finite: Counter[str] = Counter()
    if layers:
        tensors = [layer.float_tensor for layer in layers], [layer.int8_tensor for layer in layers]
        reference = open_session(bytes_with_outputs(float_model, tensors[0]), threads)
        quantized = open_session(bytes_with_outputs(int8_model, tensors[1]), threads)
        for sample in samples:
            expected = run(reference, sample.arrays, list(dict.fromkeys(tensors[0])))
            actual = run(quantized, sample.arrays, list(dict.fromkeys(tensors[1])))
            for layer in layers:
                pair = expected[layer.float_tensor], actual[layer.int8_tensor]
                if all(map(is_finite, pair)):
                    statistics[layer.name].add(compare(*pair, tensor=layer.name, sample=sample.name))
                else:
                    not_finite[layer.name] += 1
    return [_make_row(layer, statistics[layer.name], not_finite[layer.name]) for layer in layers]


def _make_row(layer: MatchedLayer, statistics: TensorStatistics, not_finite: int) -> JsonObject:
    weight = layer.weight_snr_db
    row: JsonObject = {"name": layer.name, "op_type": layer.op_type, "int8": layer.is_int8}
    row["tensor"] = layer.float_tensor
    if layer.merged:
        row["merged"] = layer.merged
    if not_finite:
        row["not_finite"] = not_finite
    return row | statistics.to_dict() | {"weight_snr_db": None if weight is None else round(weight, 2)}


class _Finder:
    """Indexes of both graphs, which relate a node of out.onnx to its quantized form."""

    def __init__(self, float_model: Any, int8_model: Any, int8_nodes: set[str]) -> None:
        self._int8_nodes = int8_nodes
        self._types = element_types(float_model)
        self._sizes = tensor_sizes(float_model)
        self._users: dict[str, list[Any]] = {}
        for node in float_model.graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._tensors = {name for node in int8_model.graph.node for name in node.output}
        self._weights = WeightErrors(float_model, int8_model)
        self._merged: set[str] = set()

    def find(self, node: Any) -> MatchedLayer | None:
        """Returns the layer of a node; None if it computes no float tensor, or belongs to a layer that was matched
        before."""
        from onnx import TensorProto

        if not node.output or node.name in self._merged or self._types.get(node.output[0]) != TensorProto.FLOAT:
            return None
        tensor, merged = node.output[0], ""
        if tensor not in self._tensors and tensor + DEQUANTIZED not in self._tensors:
            activation = self._activation_of(tensor)
            if activation is None:
                return None
            self._merged.add(activation.name)
            tensor, merged = activation.output[0], activation.name
        dequantized = tensor + DEQUANTIZED
        twin = dequantized if dequantized in self._tensors else tensor
        if twin not in self._tensors:
            return None
        is_int8 = node.name in self._int8_nodes
        size = self._sizes.get(tensor, 0)
        return MatchedLayer(node.name, node.op_type, tensor, twin, is_int8, size, merged, self._weights.snr_db(node))

    def _activation_of(self, tensor: str) -> Any | None:
        users = self._users.get(tensor, [])
        return users[0] if len(users) == 1 and users[0].op_type in FUSED_ACTIVATIONS else None


class WeightErrors:
    """SNR of the int8 weights against the float weights."""

    def __init__(self, float_model: Any, int8_model: Any) -> None:
        self._float = {tensor.name: tensor for tensor in float_model.graph.initializer}
        self._int8 = {tensor.name: tensor for tensor in int8_model.graph.initializer}
        self._nodes = {node.name: node for node in int8_model.graph.node}
        self._makers = {n.output[0]: n for n in int8_model.graph.node if n.op_type == "DequantizeLinear"}

    def snr_db(self, node: Any) -> float | None:
        """Returns the SNR in dB; None for a layer without int8 weights."""
        from onnx import numpy_helper

        twin = self._nodes.get(node.name)
        if node.op_type not in WEIGHTED or twin is None or node.input[1] not in self._float:
            return None
        maker = self._makers.get(twin.input[1])
        if maker is None or maker.input[0] not in self._int8:
            return None
        return snr_db(numpy_helper.to_array(self._float[node.input[1]]), self._dequantize(maker))

    def _dequantize(self, maker: Any) -> Array:
        from onnx import numpy_helper

        values, scale, zero = (numpy_helper.to_array(self._int8[name]) for name in maker.input)
        axis = next((a.i for a in maker.attribute if a.name == "axis"), 1)
        if scale.size > 1:
            shape = [1] * values.ndim
            shape[axis] = scale.size
            scale, zero = scale.reshape(shape), zero.reshape(shape)
        result: Array = (values.astype(np.float32) - zero.astype(np.float32)) * scale
        return result
