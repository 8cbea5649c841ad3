"""Versions of the file format (IR) and of the operators (opset): a model of another version than a toolchain reads is
converted to the nearest that it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import onnx
from onnx import checker, helper, version_converter

from app.conversion.errors import TooNewModel
from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.shapes import FAILURES, inferred
from app.conversion.toolchains.graph.specs import axis_of, opset_of
from app.inference.errors import InvalidModel
from app.kit.text.plain_text import reason_of

OPSET_BROADCAST = 7
"""Since this opset, slopes of PRelu are broadcast like NumPy's arrays, along the last axis."""
RANK_LEAST = 3
"""With fewer axes, channels are the last axis."""
OPSET_COORDINATES = 11
"""Since this opset, Resize names how it maps coordinates."""
CONVERTER_ERRORS = (RuntimeError, ValueError, checker.ValidationError)


@dataclass(frozen=True)
class ReadableVersions:
    """What a toolchain reads."""

    label: str
    opset: range
    """Versions of the default operator set."""
    ir_max: int
    is_opset_converted: bool = False
    """Whether a model of another opset is converted, since the toolchain proves its results."""


HOST = ReadableVersions("toolchain host (onnxruntime 1.31)", range(7, 27), 13, is_opset_converted=True)
"""What onnxruntime loads (a test checks it)."""
KNERON = ReadableVersions("toolchain kneron (v0.33.1)", range(8, 19), 8)
"""What the image's onnx reads (vendor manual v0.33.1: opset 8 to 18, IR up to 9)."""


def fit_versions(model: onnx.ModelProto, reads: ReadableVersions) -> list[str]:
    """Converts the model, in place, to versions that the toolchain reads, and what an older opset means otherwise.
    Idempotent.

    Returns:
        A sentence for each change.

    Raises:
        TooNewModel, InvalidModel: Its opset is too new or too old, and cannot be converted; or its IR version is newer
            than the installed onnx knows, so that nobody can say what it uses.
    """
    changes, opset = align_slopes(model), opset_of(model)
    if opset not in reads.opset:
        target = reads.opset[-1] if opset > reads.opset[-1] else reads.opset[0]
        if not reads.is_opset_converted:
            _refuse_opset(opset, reads)
        try:
            converted = convert_opset(model, target)
        except CONVERTER_ERRORS as error:
            _refuse_opset(opset, reads, f", and onnx cannot convert it ({reason_of(error)})")
        model.CopyFrom(converted)
        changes.append(f"opset {opset} → {target}")
    if model.ir_version > onnx.IR_VERSION:
        _refuse_ir(model, reads)
    if model.ir_version > reads.ir_max:
        changes.append(f"IR version {model.ir_version} → {reads.ir_max}")
        model.ir_version = reads.ir_max
    return changes


def refuse_versions(model: onnx.ModelProto, reads: ReadableVersions) -> None:
    """For a model that is used as it is.

    Raises:
        TooNewModel, InvalidModel: Its opset or IR version is not among those that are read.
    """
    if (opset := opset_of(model)) not in reads.opset:
        _refuse_opset(opset, reads)
    if model.ir_version > reads.ir_max:
        _refuse_ir(model, reads)


def convert_opset(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    """Returns a copy in another opset that computes the same.

    Raises:
        CONVERTER_ERRORS: onnx cannot convert an operator, or what it makes is invalid.
    """
    before = opset_of(model)
    converted = version_converter.convert_version(model, target)
    if before < OPSET_COORDINATES <= target:
        _keep_coordinates(converted)
    _drop_untyped(converted)
    checker.check_model(converted)
    return converted


def _keep_coordinates(model: onnx.ModelProto) -> None:
    """Names how Upsample, and Resize of older opsets, map coordinates: the converter leaves out what became a choice,
    and its default is another one."""
    for node in walk.nodes(model):
        if node.op_type == "Resize":
            modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            node.attribute.extend(helper.make_attribute(name, mode) for name, mode in modes.items())


def _drop_untyped(model: onnx.ModelProto) -> None:
    """Removes the descriptions without a type that the converter adds for tensors of its own: nothing opens them."""
    for graph in walk.graphs(model):
        typed = [value for value in graph.value_info if not _is_untyped(value)]
        if len(typed) < len(graph.value_info):
            del graph.value_info[:]
            graph.value_info.extend(typed)


def _is_untyped(value: onnx.ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") == "tensor_type" and not value.type.tensor_type.elem_type


def _refuse_ir(model: onnx.ModelProto, reads: ReadableVersions) -> NoReturn:
    ir = int(model.ir_version)
    raise TooNewModel(
        f"the model has IR version {ir}; {reads.label} reads up to {reads.ir_max}",
        hint="Export it with an older onnx package, or set model.ir_version = 8 if it uses nothing newer.",
        detail={"ir_version": ir, "max_ir_version": reads.ir_max},
    )


def _refuse_opset(opset: int, reads: ReadableVersions, reason: str = "") -> NoReturn:
    first, last = reads.opset[0], reads.opset[-1]
    if opset > last:
        raise TooNewModel(
            f"the model uses opset {opset}; {reads.label} reads up to {last}{reason}",
            hint=f"Export it with opset_version={min(last, 17)}.",
            detail={"opset": opset, "max_opset": last},
        )
    raise InvalidModel(
        f"the model uses opset {opset}; {reads.label} reads from {first} on{reason}",
        hint="Export it again, or raise it with onnx.version_converter.convert_version(model, 13).",
        detail={"opset": opset, "min_opset": first},
    )


def align_slopes(model: onnx.ModelProto) -> list[str]:
    """Gives slopes of PRelu that fit the channels, and not the last axis, a shape along the channels, in place: opset 6
    and MXNet's exporter wrote one slope per channel in one dimension.

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
