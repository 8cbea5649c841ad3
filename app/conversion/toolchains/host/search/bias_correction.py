"""Correction of biases: rounding shifts the mean of a layer's channels, and its bias can compensate.

Each layer is measured alone, on the exact values of its inputs, rounded: earlier layers correct their own shifts, and
the effects of rounding the input and rounding the weights are separated, so that one measurement serves all choices of
bit widths. A judge decides whether it helps: it corrects means and may worsen single values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.host.search.integers import activation_parameters
from app.conversion.toolchains.host.search.template import Bias, Template
from app.inference.runtimes.sessions import open_session, run

EXACT, WEIGHTS, ROUNDED = "__modelmill_exact", "__modelmill_weights", "__modelmill_rounded"


@dataclass(frozen=True)
class Shift:
    """The change of the mean of each channel of a layer's output by rounding to 8 bits.

    Args:
        by_input: due to rounding the layer's input.
        by_weights: due to rounding its weights.
    """

    bias: Bias
    by_input: Array
    by_weights: Array


def measure_shifts(
    template: Template, ranges: Mapping[str, Range], pictures: Sequence[SampleArrays], threads: int
) -> list[Shift]:
    """Measures the shift of each convolution with a bias.

    Args:
        ranges: of the activations, by name.
        pictures: calibration pictures; a few are enough.
        threads: of onnxruntime.
    """
    layers = {node.name for node in template.float_model.graph.node if node.op_type == "Conv"}
    biases = [bias for bias in template.biases if bias.layer in layers]
    if not biases or not pictures:
        return []
    session = open_session(_build_versions(template, ranges, biases).SerializeToString(), 1)
    names = [f"{bias.layer}{ending}" for bias in biases for ending in (EXACT, WEIGHTS, ROUNDED)]

    def means(picture: SampleArrays) -> list[Array]:
        values = run(session, picture.arrays, names)
        return [_of_channels(values[name]) for name in names]

    with ThreadPoolExecutor(threads) as pool:
        rows = list(pool.map(means, pictures))
    mean = iter([np.mean([row[place] for row in rows], axis=0) for place in range(len(names))])
    triples = zip(biases, mean, mean, mean, strict=True)
    return [Shift(bias, weights - rounded, exact - weights) for bias, exact, weights, rounded in triples]


def _of_channels(values: Array) -> Array:
    """Returns the mean of each channel over everything in one run: a batch, or the boxes of a RoiAlign."""
    means: Array = values.astype(np.float64).mean(axis=(0, *range(2, values.ndim)))
    return means


def corrections(shifts: Sequence[Shift], not_rounded: frozenset[str]) -> dict[str, Array]:
    """Returns what to add to each bias, by its name, if these activations and weights are not in 8 bits."""
    added = {}
    for shift in shifts:
        bias = shift.bias
        total = shift.by_input * (bias.activation not in not_rounded)
        total = total + shift.by_weights * (bias.weight not in not_rounded)
        if np.isfinite(total).all():
            added[bias.name] = total.astype(np.float32)
    return added


def _build_versions(template: Template, ranges: Mapping[str, Range], biases: Sequence[Bias]) -> Any:
    """Returns the float model with two more versions of each layer: with rounded weights, and with rounded input as
    well. Its outputs are the means of their channels."""
    from onnx import ValueInfoProto, helper, numpy_helper

    model = deepcopy(template.float_model)
    graph = model.graph
    nodes = {node.name: node for node in template.float_model.graph.node}
    weights = {weight.name: weight for weight in template.weights}
    inputs: dict[str, str] = {}
    del graph.output[:]
    for bias in biases:
        node = nodes[bias.layer]
        source, constant = node.input[0], node.input[1]
        if bias.activation in ranges and source not in inputs:
            inputs[source] = _add_rounding(graph, source, ranges[bias.activation])
        if constant in weights:
            constant = f"{bias.layer}{ROUNDED}_values"
            values = template.dequantized(weights[node.input[1]])
            graph.initializer.append(numpy_helper.from_array(values, constant))
        for ending, tensor in ((EXACT, None), (WEIGHTS, source), (ROUNDED, inputs.get(source, source))):
            made = node.output[0]
            if tensor is not None:
                twin = deepcopy(node)
                made = twin.name = f"{bias.layer}{ending}_layer"
                twin.input[0], twin.input[1], twin.output[0] = tensor, constant, made
                graph.node.append(twin)
            graph.node.append(helper.make_node("GlobalAveragePool", [made], [f"{bias.layer}{ending}"]))
            graph.output.append(ValueInfoProto(name=f"{bias.layer}{ending}"))
    return model


def _add_rounding(graph: Any, tensor: str, limits: Range) -> str:
    """Returns the name of the tensor after rounding to 8 bits."""
    from onnx import helper, numpy_helper

    scale, zero = activation_parameters(limits, np.uint8)
    names = [f"{tensor}{ROUNDED}{ending}" for ending in ("_scale", "_zero", "_integers", "_input")]
    graph.initializer.append(numpy_helper.from_array(np.array(scale, np.float32), names[0]))
    graph.initializer.append(numpy_helper.from_array(np.array(zero, np.uint8), names[1]))
    graph.node.append(helper.make_node("QuantizeLinear", [tensor, *names[:2]], [names[2]]))
    graph.node.append(helper.make_node("DequantizeLinear", [names[2], *names[:2]], [names[3]]))
    return names[3]
