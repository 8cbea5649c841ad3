"""Versions of the file format (IR) and of the operators (opset): a model of another version than a toolchain reads is
converted to the nearest that it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import onnx
from onnx import checker, helper, version_converter

from app.conversion.errors import TooNewModel
from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.prelu_slopes import align_slopes
from app.conversion.toolchains.graph.specs import opset_of
from app.inference.errors import InvalidModel
from app.kit.text.plain_text import reason_of

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
