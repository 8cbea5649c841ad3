"""Equalization across layers: the channels between two convolutions are scaled to similar ranges.

Channel c is divided by s[c] in the weights and the bias of the layer that produces it, and the weights that read it are
multiplied by s[c]. ReLU and pooling preserve a positive factor, so the network computes the same. One scale then serves
all channels of the activation, but the weights differ more; a judge decides which is better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array

EQUIVARIANT = frozenset({"Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool"})
"""f(s x) = s f(x) for s > 0, channel by channel."""
FACTOR_MOST = 64.0
"""Largest factor for a channel, up or down from the geometric mean."""
DEAD = 1e-6
"""Channels below this share of the widest one stay as they are."""

ChannelLimits = Callable[[str], "Array | None"]
"""Returns the largest magnitude of each channel of a tensor; None if unknown."""


def equalized(model: Any, limits_of: ChannelLimits) -> tuple[Any, tuple[str, ...]]:
    """Returns an equivalent copy (onnx.ModelProto), and the tensors between its layers that are scaled."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = _Weights(copy.graph)
    scaled: list[str] = []
    for node in copy.graph.node:
        if node.op_type != "Conv" or not all(map(weights.is_own, node.input[1:])):
            continue
        between = weights.between(node)
        limits = limits_of(between.widest) if between is not None else None
        if between is not None and limits is not None and weights.equalize(node, between.readers, limits):
            scaled += between.tensors
    return copy, tuple(scaled)


@dataclass
class _Between:
    """The path from a layer to those that read it.

    Args:
        widest: the last tensor before a reader, which is the one that is quantized.
    """

    readers: list[Any] = field(default_factory=list)
    widest: str = ""
    tensors: list[str] = field(default_factory=list)
    """All tensors on the path."""


class _Weights:
    """Reads and scales the constants of a graph."""

    def __init__(self, graph: Any) -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._uses = Counter(name for node in graph.node for name in node.input)
        self._outputs = {output.name for output in graph.output}
        self._readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def is_own(self, name: str) -> bool:
        """Returns whether it is a float32 constant that only one layer reads."""
        return name in self._tensors and self._tensors[name].data_type == 1 and self._uses[name] == 1

    def between(self, node: Any) -> _Between | None:
        """Returns the path after a node; None if anything but convolutions reads it at the end."""
        way, waiting = _Between(), [node.output[0]]
        while waiting:
            tensor = waiting.pop()
            way.tensors.append(tensor)
            readers = self._readers.get(tensor, [])
            if tensor in self._outputs or not readers:
                return None
            for reader in readers:
                if reader.op_type in EQUIVARIANT and len(reader.output) == 1:
                    waiting.append(reader.output[0])
                elif reader.op_type == "Conv" and reader.input[0] == tensor and self.is_own(reader.input[1]):
                    way.readers.append(reader)
                    way.widest = tensor
                else:
                    return None
        return way

    def equalize(self, node: Any, readers: Sequence[Any], limits: Array) -> bool:
        """Scale the layer and its readers; returns False if nothing would be gained."""
        if limits.ndim != 1 or limits.size < 2 or limits.size != self._tensors[node.input[1]].dims[0]:
            return False
        reach = np.maximum.reduce([self._reach(reader, limits.size) for reader in readers])
        factors = _factors(limits, reach)
        if np.allclose(factors, 1.0, rtol=0.05):
            return False
        for name in node.input[1:]:
            self._scale(name, 1.0 / factors)
        for reader in readers:
            self._scale_inputs(reader, factors)
        return True

    def _reach(self, reader: Any, channels: int) -> Array:
        """Returns the largest weight of each input channel; zeros for a depthwise layer, where each channel has a
        separate scale."""
        values = self._array(reader.input[1])
        if _groups(reader) == 1 and values.shape[1] == channels:
            most: Array = np.abs(values).max(axis=(0, *range(2, values.ndim)))
            return most
        return np.zeros(channels, np.float32)

    def _scale_inputs(self, reader: Any, factors: Array) -> None:
        values, groups = self._array(reader.input[1]), _groups(reader)
        by_group = factors.reshape(groups, 1, values.shape[1])
        rows = np.repeat(by_group, values.shape[0] // groups, axis=1).reshape(values.shape[:2])
        self._write(reader.input[1], values * rows.reshape(*rows.shape, *[1] * (values.ndim - 2)))

    def _scale(self, name: str, factors: Array) -> None:
        values = self._array(name)
        self._write(name, values * factors.reshape(-1, *[1] * (values.ndim - 1)))

    def _array(self, name: str) -> Array:
        from onnx import numpy_helper

        values: Array = numpy_helper.to_array(self._tensors[name])
        return values

    def _write(self, name: str, values: Array) -> None:
        from onnx import numpy_helper

        self._tensors[name].CopyFrom(numpy_helper.from_array(values.astype(np.float32), name))


def _factors(limits: Array, reach: Array) -> Array:
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


def _groups(node: Any) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "group"), 1)
