"""Shapes in a graph: fixes those of its inputs and infers the others, from a skeleton without weights.

Inputs are fixed by the user's values, and a single symbolic batch dimension by 1. onnx's inference is limited, because
it follows the values that shapes are computed from and would write out all of them: a few bytes with Range(0, 2**40) or
Tile request terabytes. So it runs under a memory limit, and without these values beyond that.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path

import onnx
from onnx import helper, shape_inference

from app.conversion.errors import DynamicShape
from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.specs import TensorSpec, axis_of, graph_inputs, input_values
from app.kit.errors import BadInput

Symbols = dict[str, int]
EXAMPLE_CHANNELS, EXAMPLE_SIDE = 3, 224


def fix_shapes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Set the shape of every input in place.

    If something changes, the stored results of shape inference are removed. On an error nothing changes.

    Args:
        shapes: the whole shape, including the batch, by input name. A named axis that gets a size here has it in all
            inputs.

    Returns:
        A sentence for each change.

    Raises:
        BadInput: An input is unknown, or a tensor without axes.
        DynamicShape: The shapes contradict each other, or axes stay unknown.
    """
    inputs = {spec.name: spec for spec in graph_inputs(model)}
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        raise BadInput(
            f"input_shapes names {', '.join(map(repr, unknown))}, but the model's inputs are {list(inputs)}",
            hint="Use the names of the model's inputs.",
            detail={"unknown": unknown, "inputs": list(inputs)},
        )
    symbols = _match_symbols(inputs, shapes)
    axes_of = {name: _fix_shape(spec, shapes.get(name), symbols) for name, spec in inputs.items()}
    _refuse_dynamic([(spec, axes_of[spec.name]) for spec in inputs.values()])
    fixed = {name: tuple(axis for axis in axes if isinstance(axis, int)) for name, axes in axes_of.items()}
    return _apply(model, inputs, fixed, symbols)


def _match_symbols(inputs: Mapping[str, TensorSpec], shapes: Mapping[str, tuple[int, ...]]) -> Symbols:
    """Returns the sizes of named axes from the given shapes.

    Raises:
        DynamicShape: A shape contradicts the model.
    """
    symbols: Symbols = {}
    for name, shape in shapes.items():
        spec = inputs[name]
        if not spec.is_rank_known:
            continue
        if len(shape) != len(spec.shape):
            raise _contradiction(spec, shape, f"it has {len(spec.shape)} axes, not {len(shape)}")
        for axis, (declared, size) in enumerate(zip(spec.shape, shape, strict=True)):
            expected = symbols.setdefault(declared, size) if isinstance(declared, str) else declared
            if expected is not None and expected != size:
                raise _contradiction(spec, shape, f"axis {axis} is {expected}, not {size}")
    return symbols


def _contradiction(spec: TensorSpec, shape: tuple[int, ...], reason: str) -> DynamicShape:
    return DynamicShape(
        f"the shape {list(shape)} does not fit the input {spec.name!r} of shape {spec.shape_text()}: {reason}",
        hint="Only unknown axes can be chosen; the others must be given as they are.",
        detail={"input": spec.name, "shape": list(spec.shape), "given": list(shape)},
    )


def _fix_shape(spec: TensorSpec, sizes: tuple[int, ...] | None, symbols: Symbols) -> tuple[int | str | None, ...]:
    if sizes is not None:
        return sizes
    if not spec.is_rank_known:
        return spec.shape
    axes = tuple(symbols.get(axis, axis) if isinstance(axis, str) else axis for axis in spec.shape)
    if axes and not isinstance(axes[0], int) and all(isinstance(axis, int) for axis in axes[1:]):
        return (1, *axes[1:])
    return axes


def _refuse_dynamic(fixed: list[tuple[TensorSpec, tuple[int | str | None, ...]]]) -> None:
    dynamic = [spec for spec, axes in fixed if not all(isinstance(axis, int) for axis in axes)]
    if not dynamic:
        return
    named = ", ".join(f"{spec.name!r} {spec.shape_text()}" for spec in dynamic)
    examples = {spec.name: _make_example(spec) for spec in dynamic}
    raise DynamicShape(
        f"{'an input has' if len(dynamic) == 1 else 'inputs have'} axes of unknown size: {named}",
        hint=f"Give the shape with input_shapes, for example {json.dumps(examples, ensure_ascii=False)}.",
        detail={
            "inputs": [{"name": s.name, "shape": list(s.shape), "example": examples[s.name]} for s in dynamic],
        },
    )


def _make_example(spec: TensorSpec) -> list[int]:
    """Returns an example of a shape: that of a picture if the input can take one, otherwise 1 for every open axis,
    which is usually a batch or a step."""
    shape = spec.shape if spec.is_rank_known else (None,) * 4
    if len(shape) != 4:
        return [axis if isinstance(axis, int) else 1 for axis in shape]
    guess = {0: 1} if shape[3] in (1, 3) else {0: 1, 1: EXAMPLE_CHANNELS}
    return [axis if isinstance(axis, int) else guess.get(i, EXAMPLE_SIDE) for i, axis in enumerate(shape)]


def _apply(
    model: onnx.ModelProto, inputs: Mapping[str, TensorSpec], fixed: Mapping[str, tuple[int, ...]], symbols: Symbols
) -> list[str]:
    changes = []
    for value in input_values(model):
        spec, shape = inputs[value.name], fixed[value.name]
        if spec.shape == shape:
            continue
        _set_shape(value, shape)
        changes.append(f"input {spec.name!r}: shape {spec.shape_text()} fixed to {list(shape)}")
        symbols |= {axis: shape[i] for i, axis in enumerate(spec.shape) if isinstance(axis, str) and spec.is_rank_known}
    if changes:
        _forget_old_shapes(model, symbols)
    return changes


def _set_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    dims = value.type.tensor_type.shape.dim
    del dims[:]
    for axis in shape:
        dims.add(dim_value=axis)


def _forget_old_shapes(model: onnx.ModelProto, symbols: Symbols) -> None:
    """Removes inner shapes, which are inferred again. Axes of the outputs with the name of a fixed axis get its
    size."""
    for graph in walk.graphs(model):
        del graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            axis = axis_of(dim)
            if isinstance(axis, str) and axis in symbols:
                dim.dim_value = symbols[axis]


FAILURES = (shape_inference.InferenceError, RuntimeError, ValueError, TypeError, MemoryError)
VALUES_BYTES = 256 << 20
COPIES = 4
"""Number of copies of the model during inference: as an object and as bytes, for both the model and the result."""
PAGE_BYTES = resource.getpagesize()


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with the inner shapes that can be inferred.

    Raises:
        Exception: One of FAILURES.
    """
    try:
        with _limit_memory(VALUES_BYTES + COPIES * model.ByteSize()):
            return shape_inference.infer_shapes(model, data_prop=True)
    except MemoryError:
        return shape_inference.infer_shapes(model)


@contextmanager
def _limit_memory(more_bytes: int) -> Iterator[None]:
    """Limits memory within the block: allocating more than this raises MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    held_bytes = int(Path("/proc/self/statm").read_text().split()[5]) * PAGE_BYTES
    ceiling = held_bytes + more_bytes
    limits = [limit for limit in (ceiling, soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


KEPT_ELEMENTS = 1024
"""Tensors up to this size are kept, since shapes depend on them: the targets of Reshape, Resize, Slice and similar
operators."""
IR_FREE_INITIALIZERS = 4
"""Before this IR version every initializer had to be listed as an input."""


def skeleton(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model without its large weights, which value_info lists with type and shape only."""
    bare = onnx.ModelProto(ir_version=max(model.ir_version, IR_FREE_INITIALIZERS))
    bare.opset_import.extend(model.opset_import)
    bare.functions.extend(model.functions)
    graph = bare.graph
    graph.name = model.graph.name or "graph"
    graph.input.extend(input_values(model))
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    for tensor in model.graph.initializer:
        _add_weight(graph, tensor, tensor.name)
    for sparse in model.graph.sparse_initializer:
        graph.value_info.append(_make_typed(sparse.values.name, sparse.values.data_type, list(sparse.dims)))
    for node in model.graph.node:
        value = _find_large_constant(node)
        if value is None:
            graph.node.append(node)
        else:
            graph.value_info.append(_make_typed(node.output[0], value.data_type, list(value.dims)))
    return bare


def _add_weight(graph: onnx.GraphProto, tensor: onnx.TensorProto, name: str) -> None:
    if prod(tensor.dims) <= KEPT_ELEMENTS:
        graph.initializer.append(tensor)
    else:
        graph.value_info.append(_make_typed(name, tensor.data_type, list(tensor.dims)))


def _find_large_constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or not node.output:
        return None
    values: list[onnx.TensorProto] = [attribute.t for attribute in node.attribute if attribute.name == "value"]
    return next((tensor for tensor in values if prod(tensor.dims) > KEPT_ELEMENTS), None)


def _make_typed(name: str, elem_type: int, dims: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, dims)
