"""A rewrite of a float model that computes the same, and how much better a layer has to become by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.constants import Constants, attribute

GAIN = 0.7
"""A tensor is changed only if the predicted noise at the layers that read it falls below this share."""

RowsOf = Callable[[Any, Mapping[str, int]], Mapping[str, Array]]
"""Returns values of the channels of tensors, [positions, channels], of a model, by their axes (see `channel_noise`)."""


@dataclass(frozen=True)
class Rewritten:
    """A copy of a model (onnx.ModelProto) that computes the same.

    Args:
        tensors: those that have other values, or are new; none if there is nothing to gain.
        is_same_shape: only constants changed, none of them in shape.
        left_in_float: tensors that are not to be quantized.
    """

    model: Any
    tensors: frozenset[str]
    is_same_shape: bool
    left_in_float: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LinearReader:
    """A Gemm or MatMul whose right operand is a constant matrix, or a Conv without groups.

    Args:
        node: onnx.NodeProto.
        axis: of the input channels in its weights.
    """

    node: Any
    axis: int

    @property
    def weights(self) -> str:
        return str(self.node.input[1])

    def matrix(self, values: Array) -> Array:
        """Returns its weights as [channels, outputs], with each position of a Conv's kernel as an output."""
        moved = np.moveaxis(values, self.axis, 0)
        matrix: Array = moved.reshape(moved.shape[0], -1)
        return matrix


def linear_reader(constants: Constants, node: Any, tensor: str) -> LinearReader | None:
    """Returns how a node (onnx.NodeProto) multiplies a tensor by constants of its own; None if it does otherwise."""
    if len(node.input) < 2 or node.input[0] != tensor or not constants.is_own(node.input[1]):
        return None
    rank = len(constants.shape(node.input[1]))
    if node.op_type == "MatMul" and rank == 2:
        return LinearReader(node, 0)
    if node.op_type == "Gemm" and not attribute(node, "transA", 0) and attribute(node, "alpha", 1.0) == 1.0:
        return LinearReader(node, 1 if attribute(node, "transB", 0) else 0)
    if node.op_type == "Conv" and attribute(node, "group", 1) == 1:
        return LinearReader(node, 1)
    return None
