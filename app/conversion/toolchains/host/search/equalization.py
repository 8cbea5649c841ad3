"""Equalization across layers: the channels between two convolutions are scaled to similar ranges.

Channel c is divided by s[c] in the weights and the bias of the layer that produces it, and the weights that read it are
multiplied by s[c]. ReLU and pooling preserve a positive factor, so the network computes the same. SiLU and HardSwish,
x · g(x), do so once their gate g gets its input back unscaled, by a Mul that is added before it. One scale then serves
all channels of the activation, but the weights differ more; a judge decides which is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.constants import Constants, attribute
from app.conversion.toolchains.host.search.rewrite import Rewritten

EQUIVARIANT = frozenset({"Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool"})
"""f(s x) = s f(x) for s > 0, channel by channel."""
GATES = frozenset({"Sigmoid", "HardSigmoid"})
GATE_INPUT = "__modelmill_gate"
"""Suffix of the unscaled input of a gate, of its node and of its factors."""
FACTOR_MOST = 64.0
"""Largest factor for a channel, up or down from the geometric mean."""
DEAD = 1e-6
"""Channels below this share of the widest one stay as they are."""

ChannelLimits = Callable[[str], "Array | None"]
"""Returns the largest magnitude of each channel of a tensor; None if unknown."""


def equalized(model: Any, limits_of: ChannelLimits) -> Rewritten:
    """Returns a model with equalized channels, without any tensors if there is nothing to equalize."""
    copy = deepcopy(model)
    weights = _Weights(copy.graph)
    scaled: list[str] = []
    for node in list(copy.graph.node):
        if node.op_type != "Conv" or not all(map(weights.is_own, node.input[1:])):
            continue
        between = weights.between(node)
        limits = limits_of(between.widest) if between is not None else None
        if between is not None and limits is not None and weights.equalize(node, between, limits):
            scaled += between.tensors
    return Rewritten(copy, frozenset(scaled), not weights.gate_inputs, frozenset(weights.gate_inputs))


@dataclass
class _Between:
    """The path from a layer to those that read it.

    Args:
        readers: with the place of the layer's first channel among their input channels.
        widest: the last tensor with the layer's channels alone, which is quantized.
    """

    readers: list[tuple[Any, int]] = field(default_factory=list)
    widest: str = ""
    tensors: list[str] = field(default_factory=list)
    """All tensors on the path."""
    gates: list[Any] = field(default_factory=list)


class _Weights(Constants):
    """Scales the constants of a graph."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph)
        self._channels = {v.name: _count_channels(v) for v in graph.value_info}
        self.gate_inputs: list[str] = []

    def between(self, node: Any) -> _Between | None:
        """Returns the path after a node; None if anything but convolutions reads it at the end."""
        way, waiting = _Between(), [(node.output[0], 0, "")]
        while waiting:
            tensor, place, own = waiting.pop()
            way.tensors.append(tensor)
            readers = self.readers(tensor)
            if tensor in self.outputs or not readers:
                return None
            if (gate := self._find_gate(readers, tensor)) is not None:
                way.gates.append(gate[0])
                waiting.append((gate[1].output[0], place, own))
                continue
            for reader in readers:
                if _is_equivariant(reader) and reader.input[0] == tensor:
                    waiting.append((reader.output[0], place, own))
                elif reader.op_type == "Conv" and reader.input[0] == tensor and self.is_own(reader.input[1]):
                    way.readers.append((reader, place))
                    way.widest = own or tensor
                elif (before := self._count_channels_before(reader, tensor)) is not None:
                    waiting.append((reader.output[0], place + before, own or tensor))
                else:
                    return None
        return way

    def _find_gate(self, readers: Sequence[Any], tensor: str) -> tuple[Any, Any] | None:
        """Returns the gate and the product of x · g(x); None if x is read otherwise."""
        gates = [reader for reader in readers if reader.op_type in GATES]
        products = [reader for reader in readers if reader.op_type == "Mul"]
        if len(readers) != 2 or len(gates) != 1 or len(products) != 1:
            return None
        gated = gates[0].output[0]
        is_alone = self.uses(gated) == 1 and gated not in self.outputs
        return (gates[0], products[0]) if is_alone and {tensor, gated} == set(products[0].input) else None

    def _count_channels_before(self, reader: Any, tensor: str) -> int | None:
        """Returns how many channels a Concat has before those of a tensor; None if it is no such Concat."""
        if reader.op_type != "Concat" or attribute(reader, "axis") != 1 or list(reader.input).count(tensor) != 1:
            return None
        channels = [self._channels.get(name, 0) for name in reader.input[: list(reader.input).index(tensor)]]
        return sum(channels) if all(channels) else None

    def equalize(self, node: Any, between: _Between, limits: Array) -> bool:
        """Scale the layer and its readers; returns False if nothing would be gained."""
        if limits.ndim != 1 or limits.size < 2 or limits.size != self.shape(node.input[1])[0]:
            return False
        reach = np.maximum.reduce(
            [self._find_largest_weights(reader, limits.size, place) for reader, place in between.readers]
        )
        factors = _compute_factors(limits, reach)
        if np.allclose(factors, 1.0, rtol=0.05):
            return False
        for name in node.input[1:]:
            self._scale(name, 1.0 / factors)
        for reader, place in between.readers:
            self._scale_inputs(reader, factors, place)
        for gate in between.gates:
            self._return_input(gate, factors, self.shape(node.input[1]))
        return True

    def _find_largest_weights(self, reader: Any, channels: int, place: int) -> Array:
        """Returns the largest weight of each of the layer's channels; zeros for a depthwise reader, where each channel
        has a separate scale."""
        values = self.array(reader.input[1])
        if _count_groups(reader) == 1:
            own = values[:, place : place + channels]
            most: Array = np.abs(own).max(axis=(0, *range(2, values.ndim)))
            return most
        return np.zeros(channels, np.float32)

    def _scale_inputs(self, reader: Any, factors: Array, place: int) -> None:
        values, groups = self.array(reader.input[1]), _count_groups(reader)
        every = np.ones(groups * values.shape[1])
        every[place : place + factors.size] = factors
        by_group = every.reshape(groups, 1, values.shape[1])
        rows = np.repeat(by_group, values.shape[0] // groups, axis=1).reshape(values.shape[:2])
        self.write(reader.input[1], values * rows.reshape(*rows.shape, *[1] * (values.ndim - 2)))

    def _return_input(self, gate: Any, factors: Array, weight_shape: Sequence[int]) -> None:
        """Insert the Mul before a gate that undoes the scaling of its input."""
        from onnx import helper

        tensor, name = gate.input[0], f"{gate.name}{GATE_INPUT}"
        values = factors.astype(np.float32).reshape(1, -1, *[1] * (len(weight_shape) - 2))
        gate.input[0] = name
        self.insert(helper.make_node("Mul", [tensor, f"{name}_factors"], [name], name), values, gate)
        self.gate_inputs.append(name)

    def _scale(self, name: str, factors: Array) -> None:
        values = self.array(name)
        self.write(name, values * factors.reshape(-1, *[1] * (values.ndim - 1)))


def _compute_factors(limits: Array, reach: Array) -> Array:
    """Returns the divisor of each channel: its whole range if the weights tolerate that, otherwise the square root of
    range over weight (SmoothQuant's 0.5)."""
    is_live = limits > DEAD * limits.max(initial=0.0)
    raw = np.where(is_live, limits, 1.0).astype(np.float64)
    if reach.any():
        is_live &= reach > DEAD * reach.max()
        raw = np.sqrt(raw / np.where(is_live, reach, 1.0))
    if not is_live.any():
        return np.ones(limits.size)
    raw /= np.exp(np.log(raw[is_live]).mean())
    factors: Array = np.where(is_live, np.clip(raw, 1.0 / FACTOR_MOST, FACTOR_MOST), 1.0)
    return factors


def _count_groups(node: Any) -> int:
    return int(attribute(node, "group", 1))


def _is_equivariant(node: Any) -> bool:
    if node.op_type == "Resize":
        return bool(attribute(node, "coordinate_transformation_mode") != b"tf_crop_and_resize")
    return node.op_type in EQUIVARIANT and len(node.output) == 1


def _count_channels(value: Any) -> int:
    """Returns 0 if unknown."""
    dims = value.type.tensor_type.shape.dim
    return int(dims[1].dim_value) if len(dims) > 1 else 0
