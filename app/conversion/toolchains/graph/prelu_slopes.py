"""PRelu with one slope per channel in one dimension, as opset 6 and MXNet's exporter wrote it. Since opset 7 slopes are
broadcast like NumPy's arrays, along the last axis, so such a graph does not run."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import helper

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.shapes import FAILURES, inferred
from app.conversion.toolchains.graph.specs import axis_of, opset_of

OPSET_BROADCAST = 7
RANK_LEAST = 3
"""With fewer axes, channels are the last axis."""


def align_slopes(model: onnx.ModelProto) -> list[str]:
    """Gives slopes that fit the channels, and not the last axis, a shape along the channels, in place.

    Returns:
        A sentence for each change.
    """
    changes = []
    for slopes, shape in list(_find_flat(model)):
        changes.append(f"slopes {slopes.name!r}: shape {list(slopes.dims)} → {shape}")
        slopes.dims[:] = shape
        for value in model.graph.input:  # before IR version 4 weights are inputs, too
            if value.name == slopes.name:
                value.CopyFrom(helper.make_tensor_value_info(slopes.name, slopes.data_type, shape))
    return changes


def _find_flat(model: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, list[int]]]:
    """Yields slopes along the channels, and the shape that they need."""
    tensors = {
        tensor.name: tensor for tensor in model.graph.initializer if len(tensor.dims) == 1 and tensor.dims[0] > 1
    }
    readers = [(node, name) for node in walk.nodes(model) for name in node.input if name in tensors]
    flat = {name for node, name in readers if node.op_type == "PRelu" and node.input[1] == name}
    flat -= {name for node, name in readers if node.op_type != "PRelu"}
    if not flat:
        return
    shapes, is_old = _infer_shapes(model), opset_of(model) < OPSET_BROADCAST
    for name in sorted(flat):
        size = tensors[name].dims[0]
        read = [shapes.get(node.input[0], []) for node, reader in readers if reader == name]
        ranks = {len(shape) for shape in read}
        if len(ranks) == 1 and all(_has_channels(shape, size) and (is_old or shape[-1] != size) for shape in read):
            yield tensors[name], [size, *[1] * (ranks.pop() - 2)]


def _has_channels(shape: list[int | str | None], size: int) -> bool:
    return len(shape) >= RANK_LEAST and shape[1] == size


def _infer_shapes(model: onnx.ModelProto) -> dict[str, list[int | str | None]]:
    try:
        graph = inferred(model).graph
    except FAILURES:
        graph = model.graph
    values = (*graph.input, *graph.value_info)
    return {value.name: [axis_of(dim) for dim in value.type.tensor_type.shape.dim] for value in values}
