"""Smoothing of what matrix products read (SmoothQuant, Xiao et al. 2023), such as LayerNorm and GELU of a transformer
write it: a few of its channels are much wider than the others.

Channel c is divided by s[c], and row c of the weights multiplied by it, so the network computes the same. The division
goes into the constants that make the tensor (LayerNorm, bias, linear layer) where only such products read it; otherwise
a Mul before them does it. s is limits^a / reach^(1 - a), of the channels and of their weights; for each tensor, a is
the one with the least predicted noise, and the tensor stays as it is where none is much better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import WEIGHTED
from app.conversion.toolchains.host.search.channel_noise import noise
from app.conversion.toolchains.host.search.constants import Constants, attribute
from app.conversion.toolchains.host.search.rewrite import GAIN, LinearReader, Rewritten, RowsOf, linear_reader

PRODUCTS = frozenset({"MatMul", "Gemm"})
EQUIVARIANT = frozenset({"Relu", "LeakyRelu"})
SMOOTHED = "__modelmill_smoothed"
"""Suffix of a divided tensor, of its node and of its factors."""
SHARES = (0.25, 0.5, 0.75)
"""Tried for a: the share of a channel's width that its weights take over."""
FACTOR_MOST = 1e3
"""Largest factor for a channel, up or down from the geometric mean."""
TINY = 1e-6
"""Channels and weights below this share of the widest one count as so wide."""


def smooth(model: Any, rows_of: RowsOf) -> Rewritten:
    """Returns a model (onnx.ModelProto) in which the inputs of matrix products are smoothed."""
    copy = deepcopy(model)
    constants = Constants(copy.graph)
    readers_of = {tensor: readers for tensor in constants.makers if (readers := _find_products(constants, tensor))}
    rows = rows_of(model, dict.fromkeys(readers_of, -1))
    changed, in_float = set[str](), set[str]()
    for tensor, factors in _compute_all_factors(constants, readers_of, rows).items():
        readers, division = readers_of[tensor], _Division(constants, factors)
        if len(readers) == constants.uses(tensor) and division.reaches(tensor):
            division.write()
            changed |= division.tensors
        elif _may_stay_in_float(constants, tensor, readers):
            changed.add(_insert(constants, tensor, readers, factors))
            in_float.add(tensor)
        else:
            continue
        for reader in readers:
            values = np.moveaxis(constants.array(reader.weights), reader.axis, -1) * factors
            constants.write(reader.weights, np.moveaxis(values, -1, reader.axis))
    return Rewritten(copy, frozenset(changed), not in_float, frozenset(in_float))


def _compute_all_factors(
    constants: Constants, readers_of: Mapping[str, Sequence[LinearReader]], rows: Mapping[str, Array]
) -> dict[str, Array]:
    matrices = {
        tensor: [reader.matrix(constants.array(reader.weights)) for reader in readers]
        for tensor, readers in readers_of.items()
    }
    known = ((tensor, _compute_factors(rows[tensor], matrices[tensor])) for tensor in readers_of)
    return {tensor: factors for tensor, factors in known if factors is not None}


def _find_products(constants: Constants, tensor: str) -> list[LinearReader]:
    readers = (node for node in constants.readers(tensor) if node.op_type in PRODUCTS)
    return [reader for node in readers if (reader := linear_reader(constants, node, tensor)) is not None]


def _compute_factors(rows: Array, weights: Sequence[Array]) -> Array | None:
    """Returns the divisors of the channels; None if none of them makes the noise much less."""
    matrix = np.concatenate(weights, axis=1)
    if matrix.shape[0] != rows.shape[1] or rows.shape[1] < 2 or not np.isfinite(rows).all():
        return None
    limits, reach = np.abs(rows).max(axis=0), np.abs(matrix).max(axis=1)
    if not (limits.max() > 0 and reach.max() > 0):
        return None
    limits, reach = (np.maximum(one, TINY * one.max()).astype(np.float64) for one in (limits, reach))
    best, least = None, GAIN * noise(rows, matrix)
    for share in SHARES:
        raw = limits**share / reach ** (1.0 - share)
        raw /= np.exp(np.log(raw).mean())
        factors = np.clip(raw, 1.0 / FACTOR_MOST, FACTOR_MOST).astype(np.float32)
        if (own := noise(rows, matrix, factors=factors)) < least:
            best, least = factors, own
    return best


def _may_stay_in_float(constants: Constants, tensor: str, readers: Sequence[LinearReader]) -> bool:
    """Returns whether the tensor may stay in float: no other weighted layer reads or writes it."""
    others = [node for node in constants.readers(tensor) if all(node is not reader.node for reader in readers)]
    return all(node.op_type not in WEIGHTED for node in (constants.makers[tensor], *others))


def _insert(constants: Constants, tensor: str, readers: Sequence[LinearReader], factors: Array) -> str:
    """Returns the name of the divided tensor, which these readers now read."""
    from onnx import helper

    name = f"{tensor}{SMOOTHED}"
    for reader in readers:
        reader.node.input[0] = name
    node = helper.make_node("Mul", [tensor, f"{name}_factors"], [name], name)
    constants.insert(node, (1.0 / factors).astype(np.float32), readers[0].node)
    return name


class _Division:
    """Divides the channels of a tensor, its last axis, by changing the constants that make it."""

    def __init__(self, constants: Constants, factors: Array) -> None:
        self._constants, self._factors = constants, factors
        self._names: list[tuple[str, int]] = []
        self.tensors: set[str] = set()

    def write(self) -> None:
        for name, axis in self._names:
            values = np.moveaxis(self._constants.array(name), axis, -1) / self._factors
            self._constants.write(name, np.moveaxis(values, -1, axis))

    def reaches(self, tensor: str) -> bool:
        """Returns whether there are such constants."""
        node = self._constants.makers.get(tensor)
        if node is None or tensor in self._constants.outputs:
            return False
        self.tensors.add(tensor)
        if node.op_type in EQUIVARIANT:
            return self._reaches_alone(node.input[0])
        if node.op_type == "LayerNormalization":
            return attribute(node, "axis", -1) == -1 and all(map(self._takes, node.input[1:]))
        if node.op_type in ("Add", "Mul"):
            values = [name for name in node.input if self._takes(name)]
            others = [name for name in node.input if name not in values]
            return len(others) == 1 and (node.op_type == "Mul" or self._reaches_alone(others[0]))
        reader = linear_reader(self._constants, node, node.input[0]) if node.op_type in PRODUCTS else None
        if reader is None or attribute(node, "beta", 1.0) != 1.0:
            return False
        return self._takes(reader.weights, 1 - reader.axis) and all(map(self._takes, node.input[2:]))

    def _reaches_alone(self, tensor: str) -> bool:
        return self._constants.uses(tensor) == 1 and self.reaches(tensor)

    def _takes(self, name: str, axis: int = -1) -> bool:
        """Returns whether it is a constant of this node's own with these channels, which is then divided."""
        if not self._constants.is_own(name):
            return False
        shape = self._constants.shape(name)
        if not shape or shape[axis] != self._factors.size:
            return False
        self._names.append((name, axis))
        return True
