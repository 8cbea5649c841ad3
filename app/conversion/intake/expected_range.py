"""Infers from a graph's first layers on which values it was trained. Reads only weights and runs nothing.

There are two signs. Constants: a Sub, Div, Mul, Add or BatchNormalization on the input itself normalizes it. Batch
normalization after the first convolution: over natural pictures, which are smooth, a filter answers with about the sum
of its weights times the pixel, so the stored mean and variance of that answer give mean and deviation of the pixels.
(On the RFB face detectors, trained on (x-127)/128, it finds -0.15 ± 0.58.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from app.conversion.intake.graph_view import Array, GraphView
from app.conversion.intake.range_checks import ExpectedRange, order_of
from app.conversion.toolchains import graph

NORMALIZING = frozenset({"Sub", "Add", "Mul", "Div"})
CHANNELS_MIN = 4
AGREEMENT_MIN = 0.3
"""Least share of the channels' responses that the sums of their weights have to explain; below it the filters do not
blur."""


def expectation_of(model: onnx.ModelProto) -> ExpectedRange:
    """Returns the expected values of a model with one input; empty for other models."""
    inputs = graph.graph_inputs(model)
    if len(inputs) != 1:
        return ExpectedRange()
    view = GraphView(model)
    node = view.first(inputs[0].name)
    if node is None:
        return ExpectedRange()
    if node.op_type in NORMALIZING:
        return _from_constants(view, node)
    if node.op_type == "BatchNormalization":
        return _from_input_norm(view, node)
    if node.op_type == "Conv":
        return _from_convolution(view, node)
    return ExpectedRange()


def _find_operand(view: GraphView, node: onnx.NodeProto) -> Array | None:
    return next((numbers for name in node.input if (numbers := view.numbers(name)) is not None), None)


def _from_constants(view: GraphView, node: onnx.NodeProto) -> ExpectedRange:
    """Reads constants: if Sub or Add comes first, its constant is the mean; if Mul or Div does, it is the deviation or
    the range."""
    scale, offset = 1.0, 0.0
    order = ""
    for step in _follow_chain(view, node):
        values = _find_operand(view, step)
        if values is None or not values.size:
            break
        value = float(values.mean())
        if step.op_type in ("Mul", "Div"):
            factor = value if step.op_type == "Mul" else (1 / value if value else 1.0)
            scale, offset = scale * factor, offset * factor
        else:
            signed = value if step.op_type == "Add" else -value
            order = order or order_of([abs(float(v)) for v in values.flatten()])
            offset += signed
    if not scale or (scale == 1.0 and not offset):
        return ExpectedRange()
    if not offset:  # only a factor: x / 255 maps 0..255 to 0..1
        return ExpectedRange(mean=0.45 / scale, deviation=0.27 / abs(scale), why="constants")
    if scale == 1.0:  # only an offset: its size shows the scale
        return ExpectedRange(mean=-offset, deviation=max(abs(offset) / 2, 0.05), order=order, why="constants")
    return ExpectedRange(mean=-offset / scale, deviation=0.6 / abs(scale), order=order, why="constants")


def _follow_chain(view: GraphView, node: onnx.NodeProto | None) -> Iterator[onnx.NodeProto]:
    for _ in range(4):
        if node is None or node.op_type not in NORMALIZING:
            return
        yield node
        node = view.first(node.output[0])


def _from_input_norm(view: GraphView, node: onnx.NodeProto) -> ExpectedRange:
    if len(node.input) != 5:
        return ExpectedRange()
    mean, variance = view.numbers(node.input[3]), view.numbers(node.input[4])
    if mean is None or variance is None or not mean.size or (variance <= 0).any():
        return ExpectedRange()
    order = order_of(list(mean))
    return ExpectedRange(float(mean.mean()), float(np.sqrt(variance).mean()), order=order, why="batchnorm")


def _from_convolution(view: GraphView, node: onnx.NodeProto) -> ExpectedRange:
    after = view.first(node.output[0])
    if after is None or after.op_type != "BatchNormalization" or len(after.input) != 5:
        return ExpectedRange()
    weights = view.numbers(node.input[1])
    mean, variance = view.numbers(after.input[3]), view.numbers(after.input[4])
    if weights is None or mean is None or variance is None or weights.ndim != 4 or len(weights) < CHANNELS_MIN:
        return ExpectedRange()
    bias = view.numbers(node.input[2]) if len(node.input) > 2 else np.zeros(len(weights))
    if bias is None or not len(weights) == len(mean) == len(variance) == len(bias) or (variance < 0).any():
        return ExpectedRange()
    return _fit(weights, mean - bias, np.sqrt(variance))


def _fit(weights: Array, mean: Array, deviation: Array) -> ExpectedRange:
    sums = weights.sum(axis=(1, 2, 3))
    energy = float((sums * sums).sum())
    total = float((deviation * deviation).sum())
    if not energy or not total:
        return ExpectedRange()
    sigma = float((deviation * np.abs(sums)).sum()) / energy
    agreement = sigma * sigma * energy / total
    if not np.isfinite(sigma) or sigma <= 0 or agreement < AGREEMENT_MIN:
        return ExpectedRange()
    return ExpectedRange(float((mean * sums).sum()) / energy, sigma, why="batchnorm")
