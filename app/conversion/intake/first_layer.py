"""Infers from the first layer of a network on which values it was trained. Reads only weights and runs nothing.

Up to its first non-linear operator a network answers a picture of one color with a linear function of that color. Batch
normalization after it has stored the mean of that response, and so reveals the mean of each channel of the input. If it
was folded into the convolution, the response to the mean picture is the normalization's own shift, which is small:
weaker evidence, but enough to distinguish bytes from fractions, and often red from blue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import onnx
from onnx import helper

from app.conversion.intake.graph_view import Array, GraphView
from app.inference.preprocessing import AxisOrder

NODES_MOST = 40
"""The first layer is searched among this many nodes that depend on the input."""
CHANNELS_LEAST = 6
BLOCK_MOST = 16
"""Largest plausible block size of SpaceToDepth; a larger one means damage."""
AGREEMENT_LEAST = 0.3
"""Least share of the channels' deviations that the sums of their weights have to explain; below it the filters do not
blur."""
ACTIVATIONS = frozenset(
    {"Relu", "Clip", "Sigmoid", "LeakyRelu", "PRelu", "HardSigmoid", "HardSwish", "Elu", "Mish", "MaxPool"}
)
SPATIAL = frozenset({"Pad", "Resize", "Upsample", "AveragePool", "Identity", "Cast", "Dropout", "Shape"})
ARITHMETIC: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
BLUR_LEAST = 0.05
"""Least sum of a filter's weights, as a share of their magnitude: a filter of differences sees edges, but no colors."""
UNREADABLE = (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, np.linalg.LinAlgError)
Kind = Literal["batchnorm", "folded", "input_norm", "none"]


@dataclass(frozen=True)
class FirstLayer:
    """The statistics of a model's input; means are those of the values that are fed, by channel of the input."""

    kind: Kind
    """The evidence: stored statistics, the convolution they were folded into, or a normalization of the input."""
    mean: Array | None = None
    covariance: Array | None = None
    """Covariance of the mean, from the fit."""
    spread: float | None = None
    """Standard deviation of the values that are fed; for a folded layer a check: deviation × spread is near 1."""
    factor: Array | None = None
    """Factor by which the graph itself multiplies each channel before its first convolution; None for none."""
    offset: Array | None = None


NOTHING = FirstLayer("none")


@dataclass(frozen=True)
class _Response:
    """The response of a tensor to a picture of one color: matrix[channel] · (color, 1)."""

    matrix: Array
    axis: int
    """Index of the axis of its channels."""


def first_layer_of(model: onnx.ModelProto, name: str, channels: int, order: AxisOrder) -> FirstLayer:
    """Infer the statistics of an input from the first layer. A graph that breaks the rules of its operators gives none.

    Args:
        name: of the input.
        channels: number of the input's channels.
        order: of the input's axes, which tells where the channels are.
    """
    try:
        with np.errstate(all="ignore"):
            layer = _Trace(GraphView(model), channels).run(model, name, order.index("C"))
    except UNREADABLE:
        return NOTHING
    return layer if _is_finite(layer) else NOTHING


def _is_finite(layer: FirstLayer) -> bool:
    """Returns whether all numbers are finite: damaged weights may contain anything."""
    arrays = (layer.mean, layer.covariance, layer.factor, layer.offset)
    is_spread_sound = layer.spread is None or (np.isfinite(layer.spread) and layer.spread > 0)
    return bool(is_spread_sound) and all(array is None or bool(np.isfinite(array).all()) for array in arrays)


class _Trace:
    def __init__(self, view: GraphView, channels: int) -> None:
        self._view, self._channels = view, channels
        self._known: dict[str, _Response] = {}
        self._entry: Array | None = None
        """Response of the first convolution's input."""
        self._is_blind = False

    def run(self, model: onnx.ModelProto, name: str, axis: int) -> FirstLayer:
        """Follow the graph from the input to the first layer, and return what this layer shows.

        Args:
            name: of the input.
            axis: index of the axis of its channels.
        """
        start = np.hstack([np.eye(self._channels), np.zeros((self._channels, 1))])
        self._known[name] = _Response(start, axis)
        reading = (node for node in model.graph.node if any(source in self._known for source in node.input))
        for node in islice(reading, NODES_MOST):
            sources = [source for source in node.input if source in self._known]
            if node.op_type == "BatchNormalization":
                return self._read_normalization(node)
            answer = self._follow_node(node)
            if answer is None:
                return self._read_folded(node, self._known[sources[0]])
            for output, response in zip(node.output, answer, strict=False):
                self._known[output] = response
        return NOTHING

    def _follow_node(self, node: onnx.NodeProto) -> list[_Response] | None:
        """Returns the response after a linear operator; None for an operator that is not linear, or not known."""
        if node.op_type in ARITHMETIC:
            return self._convert_arithmetic(node)
        if node.op_type == "Concat":
            return self._convert_concat(node)
        response = self._known.get(node.input[0])
        return None if response is None else self._follow_single(node, response)

    def _follow_single(self, node: onnx.NodeProto, response: _Response) -> list[_Response] | None:
        if node.op_type in SPATIAL:
            return [response]
        if node.op_type == "Conv":
            return self._convert_convolution(node, response)
        if node.op_type == "Transpose":
            axes = list(_get_attribute(node, "perm", []))
            return [_Response(response.matrix, axes.index(response.axis))] if axes else None
        if node.op_type == "SpaceToDepth":
            block = min(_get_attribute(node, "blocksize", 1), BLOCK_MOST)
            return [_Response(np.tile(response.matrix, (block * block, 1)), response.axis)]
        return self._convert_selection(node, response)

    def _convert_arithmetic(self, node: onnx.NodeProto) -> list[_Response] | None:
        values = [self._view.numbers(name) for name in node.input]
        place = next((index for index, name in enumerate(node.input) if name in self._known), 0)
        constant = values[1 - place] if len(values) == 2 else None
        if constant is None or (place == 1 and node.op_type == "Div"):
            return None
        response = self._known[node.input[place]]
        if constant.size not in (1, len(response.matrix)):
            return None
        each = np.broadcast_to(constant.reshape(-1), (len(response.matrix),))
        matrix = response.matrix.copy()
        operate = ARITHMETIC[node.op_type]
        with np.errstate(all="ignore"):
            if node.op_type in ("Mul", "Div"):
                matrix = operate(matrix, each[:, None])
            else:
                matrix[:, -1] = operate(matrix[:, -1], each)
                matrix = -matrix if place == 1 and node.op_type == "Sub" else matrix
        return [_Response(matrix, response.axis)]

    def _convert_concat(self, node: onnx.NodeProto) -> list[_Response] | None:
        parts = [self._known[name] for name in node.input if name in self._known]
        axis = parts[0].axis
        if len(parts) != len(node.input) or _get_attribute(node, "axis", -9) % 4 != axis:
            return None
        return [_Response(np.vstack([part.matrix for part in parts]), axis)]

    def _convert_selection(self, node: onnx.NodeProto, response: _Response) -> list[_Response] | None:
        """Handles Slice, Gather and Split: along the picture's sides they change nothing, along its channels they
        select some."""
        if node.op_type == "Gather" and _get_attribute(node, "axis", 0) % 4 == response.axis:
            indexes = self._view.numbers(node.input[1])
            return None if indexes is None else [_select_rows(response, indexes.astype(int).reshape(-1))]
        if node.op_type == "Split" and _get_attribute(node, "axis", 0) % 4 == response.axis:
            if len(response.matrix) % len(node.output):
                return None
            parts = np.split(np.arange(len(response.matrix)), len(node.output))
            return [_select_rows(response, part) for part in parts]
        return self._convert_slice(node, response) if node.op_type == "Slice" else None

    def _convert_slice(self, node: onnx.NodeProto, response: _Response) -> list[_Response] | None:
        parts = [
            self._read_slice_part(node, place, name) for place, name in enumerate(("starts", "ends", "axes", "steps"))
        ]
        starts, ends, axes, steps = parts
        if starts is None or ends is None:
            return None
        axes = np.arange(len(starts)) if axes is None else axes
        steps = np.ones(len(starts), int) if steps is None else steps
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            if axis % 4 == response.axis:
                stop = None if step < 0 and end < -len(response.matrix) else end
                response = _select_rows(response, np.arange(len(response.matrix))[start:stop:step])
        return [response]

    def _read_slice_part(self, node: onnx.NodeProto, place: int, name: str) -> Array | None:
        if len(node.input) > place + 1:
            numbers = self._view.numbers(node.input[place + 1])
            return None if numbers is None else np.clip(numbers, -(1 << 31), 1 << 31).astype(int)
        listed = _get_attribute(node, name, None)
        return None if listed is None else np.clip(np.asarray(listed, dtype=float), -(1 << 31), 1 << 31).astype(int)

    def _convert_convolution(self, node: onnx.NodeProto, response: _Response) -> list[_Response] | None:
        weights = self._view.numbers(node.input[1])
        bias = self._view.numbers(node.input[2]) if len(node.input) > 2 else None
        if weights is None or weights.ndim != 4 or response.axis != 1 or (len(node.input) > 2 and bias is None):
            return None
        if self._entry is None:
            self._entry = response.matrix
        sums, groups = weights.sum(axis=(2, 3)), _get_attribute(node, "group", 1)
        self._is_blind |= bool(np.abs(sums).sum() < BLUR_LEAST * np.abs(weights).sum())
        if len(response.matrix) != sums.shape[1] * groups or len(sums) % groups:
            return None
        inputs = np.split(response.matrix, groups)
        matrix = np.vstack([part @ inner for part, inner in zip(np.split(sums, groups), inputs, strict=True)])
        if bias is not None:
            matrix[:, -1] += bias
        return [_Response(matrix, 1)]

    def _read_normalization(self, node: onnx.NodeProto) -> FirstLayer:
        """Reads the first batch normalization, which has stored the mean of the linear responses."""
        mean, variance = (self._view.numbers(name) for name in node.input[3:5])
        if mean is None or variance is None or node.input[0] not in self._known:
            return NOTHING
        response = self._known[node.input[0]]
        if len(mean) != len(response.matrix) or (variance < 0).any():
            return NOTHING
        if self._entry is None:
            return self._read_input_norm(response, mean, variance)
        deviation = np.sqrt(variance)
        spread = _estimate_spread(response.matrix[:, :-1], deviation)
        return self._fit_picture("batchnorm", response.matrix, mean, spread, 1 / np.maximum(deviation, 1e-9))

    def _read_input_norm(self, response: _Response, mean: Array, variance: Array) -> FirstLayer:
        """Reads a normalization of the input itself: its mean and variance are those of the pixels."""
        gains = np.abs(response.matrix[:, :-1]).sum(axis=1)
        if len(mean) != self._channels or not gains.all():
            return NOTHING
        solved = np.linalg.lstsq(response.matrix[:, :-1], mean - response.matrix[:, -1], rcond=None)[0]
        spread = float((np.sqrt(variance) / gains).mean())
        covariance = np.eye(self._channels) * (0.05 * spread) ** 2
        return FirstLayer("input_norm", solved, covariance, spread)

    def _read_folded(self, node: onnx.NodeProto, response: _Response) -> FirstLayer:
        """Reads a convolution right before an activation: if it had a normalization, its weights contain it."""
        if self._entry is None:
            return NOTHING
        if node.op_type not in ACTIVATIONS and not self._is_gate(node):
            return self._add_fixed_steps(NOTHING)
        sums = response.matrix[:, :-1].sum(axis=1)
        life = float(np.sqrt((sums * sums).mean()))
        return self._fit_picture("folded", response.matrix, np.zeros(len(response.matrix)), life or None, None)

    def _is_gate(self, node: onnx.NodeProto) -> bool:
        """Recognizes SiLU and similar functions: x · sigmoid(x)."""
        return node.op_type == "Mul" and any(name not in self._known for name in node.input)

    def _fit_picture(
        self, kind: Kind, matrix: Array, answer: Array, spread: float | None, weights: Array | None
    ) -> FirstLayer:
        """Returns the picture, by least squares, to which the layer gives this mean response."""
        sums, rest = matrix[:, :-1], answer - matrix[:, -1]
        is_short = len(sums) < max(CHANNELS_LEAST, 2 * self._channels)
        if is_short or self._is_blind or not np.isfinite(matrix).all():
            return self._add_fixed_steps(NOTHING)
        if weights is not None:
            sums, rest = sums * weights[:, None], rest * weights
        normal = sums.T @ sums
        if np.linalg.cond(normal) > 1e8:
            return self._add_fixed_steps(NOTHING)
        mean = np.linalg.solve(normal, sums.T @ rest)
        error = rest - sums @ mean
        variance = float(error @ error) / max(len(sums) - self._channels, 1)
        return self._add_fixed_steps(FirstLayer(kind, mean, variance * np.linalg.inv(normal), spread))

    def _add_fixed_steps(self, layer: FirstLayer) -> FirstLayer:
        """Adds what the graph itself does to the channels before its first convolution."""
        entry = self._entry
        if entry is None or len(entry) != self._channels:
            return layer
        factor, offset = entry[:, :-1].sum(axis=1), entry[:, -1]
        if np.allclose(factor, 1) and np.allclose(offset, 0):
            return layer
        return FirstLayer(layer.kind, layer.mean, layer.covariance, layer.spread, factor, offset)


def _select_rows(response: _Response, indexes: Array) -> _Response:
    return _Response(response.matrix[indexes], response.axis)


def _estimate_spread(sums: Array, deviation: Array) -> float | None:
    """Returns the deviation of the pixels: smooth pictures change a filter's response by about the sum of its
    weights."""
    total = np.abs(sums.sum(axis=1))
    energy, power = float((total * total).sum()), float((deviation * deviation).sum())
    if not energy or not power:
        return None
    spread = float((deviation * total).sum()) / energy
    return spread if spread * spread * energy / power >= AGREEMENT_LEAST else None


def _get_attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name), default)
