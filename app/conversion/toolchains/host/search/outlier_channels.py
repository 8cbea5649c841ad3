"""Splitting of channels that alone widen a tensor (outlier channel splitting, Zhao et al. 2019).

A wide channel between two linear layers becomes several equal parts, each with a share of its values: the layer that
makes it gets as many smaller copies of its output channel, and the layers that read it as many copies of the input
channel. The network computes the same, and one scale serves all channels better, for a few channels more. Unlike
equalization, it makes no weight larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.channel_noise import noise
from app.conversion.toolchains.host.search.constants import Constants, attribute
from app.conversion.toolchains.host.search.equalization import EQUIVARIANT
from app.conversion.toolchains.host.search.rewrite import GAIN, LinearReader, Rewritten, RowsOf, linear_reader

PASSING = {"Conv": EQUIVARIANT, "Gemm": frozenset({"Relu", "LeakyRelu"}), "MatMul": frozenset({"Relu", "LeakyRelu"})}
"""What may be between two layers, by the kind of the first."""
ADDED_SHARE = 1 / 16
"""Of the channels of a tensor, at most, that are added to it."""
CHANNELS = 1
"""The axis of channels in what a Conv writes."""
NEAR = 1.05
"""As few are added as make the noise at most this many times the least."""


@dataclass(frozen=True)
class _Chain:
    """A linear layer, what passes its channels on, and the linear layers that read them.

    Args:
        maker: with the axis of its output channels as `axis`.
        bias: name of the maker's bias; empty without one.
        tensors: between them, the last one of which is read.
        axis: of the channels in these tensors.
    """

    maker: LinearReader
    bias: str
    tensors: tuple[str, ...]
    readers: tuple[LinearReader, ...]
    axis: int


def split_channels(model: Any, rows_of: RowsOf) -> Rewritten:
    """Returns a model (onnx.ModelProto) in which channels that widen a tensor are split."""
    copy = deepcopy(model)
    constants = Constants(copy.graph)
    chains = [chain for node in copy.graph.node if (chain := _follow_chain(constants, node)) is not None]
    rows = rows_of(model, {chain.tensors[-1]: chain.axis for chain in chains})
    copies = [
        _count_copies(rows[chain.tensors[-1]], [one.matrix(constants.array(one.weights)) for one in chain.readers])
        for chain in chains
    ]
    changed = set[str]()
    for chain, parts in zip(chains, copies, strict=True):
        if parts is not None:
            _apply(constants, chain, parts)
            changed.update(chain.tensors)
    return Rewritten(copy, frozenset(changed), is_same_shape=False)


def _follow_chain(constants: Constants, node: Any) -> _Chain | None:
    """Returns the chain that begins at a node; None if its channels go elsewhere, too."""
    maker = linear_reader(constants, node, node.input[0]) if node.input else None
    biases = node.input[2:]
    if maker is None or not all(map(constants.is_own, biases)) or attribute(node, "beta", 1.0) != 1.0:
        return None
    axis = CHANNELS if node.op_type == "Conv" else -1
    if any(len(constants.shape(bias)) != 1 for bias in biases):
        return None
    tensors = [node.output[0]]
    while True:
        readers = constants.readers(tensors[-1])
        if tensors[-1] in constants.outputs or not readers:
            return None
        if len(readers) == 1 and readers[0].op_type in PASSING[node.op_type] and len(readers[0].output) == 1:
            tensors.append(readers[0].output[0])
            continue
        linear = [linear_reader(constants, reader, tensors[-1]) for reader in readers]
        known = tuple(reader for reader in linear if reader is not None)
        if len(known) < len(readers) or any((one.node.op_type == "Conv") != (axis == CHANNELS) for one in known):
            return None
        made = LinearReader(node, 1 - maker.axis)
        return _Chain(made, biases[0] if biases else "", tuple(tensors), known, axis)


def _count_copies(rows: Array, weights: Sequence[Array]) -> Array | None:
    """Returns as how many parts each channel is represented; None if that makes the noise not much less."""
    matrix = np.concatenate(weights, axis=1)
    count = rows.shape[1]
    if matrix.shape[0] != count or count < 2 or not np.isfinite(rows).all():
        return None
    limits = np.abs(rows).max(axis=0)
    copies, tried = np.ones(count, np.float32), list[tuple[float, Array]]()
    for added in range(1, 1 + max(1, int(ADDED_SHARE * count))):
        copies[np.argmax(limits / copies)] += 1
        if added & (added - 1) == 0:  # a power of two
            tried.append((noise(rows, matrix, copies=copies), copies.copy()))
    least = min(energy for energy, _ in tried)
    if least >= GAIN * noise(rows, matrix):
        return None
    return next(parts for energy, parts in tried if energy <= NEAR * least)


def _apply(constants: Constants, chain: _Chain, copies: Array) -> None:
    places = np.repeat(np.arange(copies.size), copies.astype(int))
    share = 1.0 / copies[places]
    values = np.moveaxis(np.take(constants.array(chain.maker.weights), places, chain.maker.axis), chain.maker.axis, -1)
    constants.write(chain.maker.weights, np.moveaxis(values * share, -1, chain.maker.axis))
    if chain.bias:
        constants.write(chain.bias, constants.array(chain.bias)[places] * share)
    for reader in chain.readers:
        constants.write(reader.weights, np.take(constants.array(reader.weights), places, reader.axis))
    for value in constants.graph.value_info:
        if value.name in chain.tensors and len(value.type.tensor_type.shape.dim):
            value.type.tensor_type.shape.dim[chain.axis].dim_value = places.size
