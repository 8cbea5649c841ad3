"""Second-order rounding of weights: later weights compensate the error of rounding earlier ones.

Column by column, as GPTQ does (Frantar et al. 2022): the error of a rounded column goes to the columns that are not
rounded yet, by the inverse of the products of the layer's inputs, so that the output error is smallest on the layer's
real inputs. Scales stay; only integers change, most of them by at most one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import bytes_with_outputs
from app.conversion.toolchains.host.inputs import Array, SampleArrays
from app.conversion.toolchains.host.search.constants import attribute
from app.conversion.toolchains.host.search.statistics import groups_of
from app.conversion.toolchains.host.search.template import Template, Weight
from app.inference.runtimes.sessions import open_session, run

POSITIONS = 256
"""Number of positions in a picture at which a layer's inputs are sampled, evenly spaced."""
COLUMNS_MOST = 1152
"""Largest number of weights in an output channel; larger layers are rounded to nearest, since the time grows with its
cube."""
DAMPING = 0.01
"""Share of the mean product that is added to each column's own, so that a column that hardly varies does not absorb
everything."""
BLOCK = 64
"""Number of columns whose errors are passed on together."""
TOP = 127
RANK, LINEAR_RANK = 4, 2
"""Of the weights of a Conv, and of a Gemm or MatMul."""


def second_order(template: Template, pictures: Sequence[SampleArrays], threads: int) -> dict[str, Array]:
    """Returns the 8-bit integers of weights, by the weight's name, for the layers where this is possible.

    Args:
        pictures: calibration pictures; a few are enough.
        threads: of onnxruntime.
    """
    weights = {weight.name: weight for weight in template.weights}
    layers = [node for node in template.float_model.graph.node if _is_rounded(node, weights, template)]
    products = _sum_products(template, layers, pictures, threads)
    integers = {}
    for node in layers:
        name = node.input[1]
        if name not in products or name in integers:
            continue
        values, is_turned = template.float_value(name), _has_outputs_last(node)
        rows = values.T if is_turned else values
        rounded = _round_weights(rows, template.weight_scale(weights[name]), products[name])
        if rounded is not None:
            integers[name] = np.ascontiguousarray(rounded.T) if is_turned else rounded
    return integers


def _is_rounded(node: Any, weights: Mapping[str, Weight], template: Template) -> bool:
    if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in weights:
        return False
    weight, shape = weights[node.input[1]], template.float_value(node.input[1]).shape
    is_turned = _has_outputs_last(node)
    outputs_axis = len(shape) - 1 if is_turned else 0
    if weight.axis % max(len(shape), 1) != outputs_axis and template.weight_scale(weight).size > 1:
        return False
    if node.op_type != "Conv":
        return (
            len(shape) == LINEAR_RANK and shape[1 - outputs_axis] <= COLUMNS_MOST and not attribute(node, "transA", 0)
        )
    return len(shape) == RANK and int(np.prod(shape[1:])) <= COLUMNS_MOST and not attribute(node, "auto_pad", b"")


def _has_outputs_last(node: Any) -> bool:
    """Returns whether the weights are [inputs, outputs]."""
    return bool(node.op_type == "MatMul" or (node.op_type == "Gemm" and not attribute(node, "transB", 0)))


def _sum_products(
    template: Template, layers: Sequence[Any], pictures: Sequence[SampleArrays], threads: int
) -> dict[str, Array]:
    """Returns the sums of products of a layer's inputs, [groups, columns, columns], by its weight's name."""
    model = template.float_model
    given = {value.name for value in model.graph.input}
    groups = groups_of(model, sorted({node.input[0] for node in layers} - given))
    products: dict[str, Array] = {}
    for number, group in enumerate(groups):
        session = open_session(bytes_with_outputs(model, group), threads)  # one at a time: each holds all weights
        for picture in pictures:
            values = run(session, picture.arrays, group) if group else {}
            own = {**values, **picture.arrays} if number == 0 else values
            for node in layers:
                if node.input[0] in own:
                    columns = _arrange_columns(own[node.input[0]], template.float_value(node.input[1]).shape, node)
                    name = node.input[1]
                    products[name] = products.get(name, np.float64(0.0)) + columns.swapaxes(1, 2) @ columns
    return products


def _arrange_columns(array: Array, shape: tuple[int, ...], node: Any) -> Array:
    """Returns the factors of each weight of an output channel at some positions: [groups, places, columns]."""
    if node.op_type != "Conv":
        rows = array.reshape(-1, array.shape[-1])
        taken: Array = rows[_spread_positions(len(rows))]
        return taken[None]
    top, left, bottom, right = attribute(node, "pads", (0, 0, 0, 0))
    (down, across), (dilated_down, dilated_across) = (
        attribute(node, name, (1, 1)) for name in ("strides", "dilations")
    )
    padded = np.pad(array[0], ((0, 0), (top, bottom), (left, right)))
    window = ((shape[2] - 1) * dilated_down + 1, (shape[3] - 1) * dilated_across + 1)
    views = np.lib.stride_tricks.sliding_window_view(padded, window, (1, 2))
    views = views[:, ::down, ::across, ::dilated_down, ::dilated_across]
    places = _spread_positions(views.shape[1] * views.shape[2])
    taken = views[:, places // views.shape[2], places % views.shape[2]]
    groups = array.shape[1] // shape[1]
    columns: Array = taken.reshape(groups, shape[1], places.size, -1).transpose(0, 2, 1, 3)
    return columns.reshape(groups, places.size, -1)


def _spread_positions(count: int) -> Array:
    """Returns evenly spaced positions of so many."""
    number = min(count, POSITIONS)
    places: Array = np.arange(number) * count // max(number, 1)
    return places


def _round_weights(values: Array, scale: Array, products: Array) -> Array | None:
    """Returns the rounded integers; None if the products cannot be inverted."""
    groups, count, _ = products.shape
    own = np.einsum("gcc->gc", products)
    if not np.isfinite(own).all():
        return None
    added = DAMPING * own.mean(axis=1, keepdims=True) + (own <= 0.0)
    damped = products + np.eye(count) * added[:, None, :]
    try:
        upper = np.linalg.cholesky(np.linalg.inv(damped.astype(np.float64))).swapaxes(1, 2)
    except np.linalg.LinAlgError:
        return None
    left = values.reshape(groups, -1, count).astype(np.float64)
    scales = np.broadcast_to(scale.astype(np.float64).reshape(-1), (values.shape[0],)).reshape(groups, -1)
    integers = np.empty(left.shape)
    for begin in range(0, count, BLOCK):
        end = min(begin + BLOCK, count)
        block, errors = left[:, :, begin:end].copy(), np.empty((groups, left.shape[1], end - begin))
        for place in range(end - begin):
            column = np.clip(np.rint(block[:, :, place] / scales), -TOP, TOP)
            integers[:, :, begin + place] = column
            own_row = upper[:, begin + place, begin + place : end]
            errors[:, :, place] = (block[:, :, place] - column * scales) / own_row[:, :1]
            block[:, :, place:] -= errors[:, :, place, None] * own_row[:, None]
        left[:, :, end:] -= errors @ upper[:, begin:end, end:]
    return integers.reshape(values.shape).astype(np.int8)
