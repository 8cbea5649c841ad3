"""Graph surgery of the ONNX stage: each function changes a ModelProto and describes the change.

This module defines the changes to a graph before it is proved equal to its original. It does not run models.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import io
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from app.conversion.toolchains.graph import opset_of, versions, walk
from app.conversion.toolchains.graph.specs import DEFAULT_DOMAINS
from app.conversion.toolchains.host.graph_names import restore_names
from app.conversion.toolchains.host.inputs import Array
from app.kit.text.plain_text import reason_of

Model = Any
"""onnx.ModelProto"""

OPSET_MIN = 13
"""int8 weights per channel (DequantizeLinear with an axis) exist since this opset; lower opsets are upgraded."""
OPSET_TARGET = 17
"""The last opset before Reduce* and others turned attributes into inputs; the quantizer supports all of it."""
IR_MIN = 8


@dataclass(frozen=True)
class PreparedModel:
    """A graph, the changes that led to it, and what could not be done."""

    model: Model
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def strip_weights_from_inputs(model: Model) -> list[str]:
    """Removes initializers from the inputs, where graphs of IR 3 list them: fusions have to know that they are
    constants."""
    stripped = walk.remove_weight_inputs(model)
    return [f"{stripped} weights listed as graph inputs are now constants"] if stripped else []


def constants_to_weights(model: Model) -> list[str]:
    """Turns Constant nodes and sparse constants of the main graph into initializers, since the quantizer accepts only
    these as weights."""
    outputs = {value.name for value in model.graph.output}
    nodes: list[Any] = []
    weights: list[Any] = []
    for node in model.graph.node:
        tensor = None if outputs & set(node.output) else _read_constant(node)
        if tensor is None:
            nodes.append(node)
        else:
            weights.append(tensor)
    weights += [_to_dense(sparse) for sparse in model.graph.sparse_initializer]
    del model.graph.sparse_initializer[:]
    if not weights:
        return []
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(weights)
    return [f"{len(weights)} constants are now weights"]


def _to_dense(sparse: Any) -> Any:
    """Returns the TensorProto of a SparseTensorProto, with the same name."""
    import numpy as np
    from onnx import numpy_helper

    values, places = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if places.ndim == 1:
        dense.reshape(-1)[places] = values
    else:
        dense[tuple(places.T)] = values
    return numpy_helper.from_array(dense, sparse.values.name)


def _read_constant(node: Any) -> Any | None:
    """Returns the TensorProto of a Constant node, named as its output; None for other nodes and other values."""
    from onnx import TensorProto, helper

    if node.op_type != "Constant" or node.domain not in DEFAULT_DOMAINS:
        return None
    attribute = node.attribute[0]
    name, value = node.output[0], helper.get_attribute_value(attribute)
    if attribute.name == "value":
        tensor = TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name
        return tensor
    kind = {"value_float": TensorProto.FLOAT, "value_floats": TensorProto.FLOAT}.get(attribute.name, TensorProto.INT64)
    if attribute.name in ("value_float", "value_int"):
        return helper.make_tensor(name, kind, [], [value])
    if attribute.name in ("value_floats", "value_ints"):
        return helper.make_tensor(name, kind, [len(value)], value)
    return None


def raise_ir_version(model: Model) -> list[str]:
    """Raises an IR version below 4, which requires every initializer to be an input, too. Idempotent."""
    if model.ir_version >= IR_MIN:
        return []
    before, model.ir_version = model.ir_version, IR_MIN
    return [f"IR version {before} → {IR_MIN}"]


def upgrade_opset(model: Model) -> PreparedModel:
    """Upgrades an opset that the quantizer does not support. If the converter fails, the opset stays."""
    before = opset_of(model)
    if before >= OPSET_MIN:
        return PreparedModel(model)
    try:
        converted = versions.convert_opset(model, OPSET_TARGET)
    except versions.CONVERTER_ERRORS as error:
        note = f"opset {before} was kept: the version converter cannot do it ({reason_of(error)})"
        return PreparedModel(model, warnings=[note])
    converted.ir_version = max(converted.ir_version, IR_MIN)
    return PreparedModel(converted, [f"opset {before} → {OPSET_TARGET}"])


def has_float16(model: Model) -> bool:
    """Returns whether the model computes in float16 anywhere."""
    from onnx import TensorProto

    casts = (a.i for node in walk.nodes(model) if node.op_type == "Cast" for a in node.attribute if a.name == "to")
    inputs = (value.type.tensor_type.elem_type for value in model.graph.input)
    weights = (tensor.data_type for tensor in walk.tensors(model))
    return TensorProto.FLOAT16 in chain(inputs, casts, weights)


def simplify(model: Model) -> PreparedModel:
    """Folds constants and batch normalization, and removes what nothing reads. On failure the graph stays as it is,
    with a warning."""
    import onnxslim

    before = operator_counts(model)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            slim = onnxslim.slim(copy.deepcopy(model))
        gc.collect()  # its graphs refer to themselves, and contain the weights twice
    except Exception as error:  # noqa: BLE001  # a simplifier's bug must not cost the user the conversion
        return PreparedModel(model, warnings=[f"the graph was not simplified: onnxslim raised {type(error).__name__}"])
    if slim is None or not _has_same_interface(slim, model):
        return PreparedModel(model, warnings=["the graph was not simplified: onnxslim changed its inputs or outputs"])
    restore_names(slim, model)
    after = operator_counts(slim)
    gone = {op: count - after.get(op, 0) for op, count in sorted(before.items()) if after.get(op, 0) < count}
    if not gone:
        return PreparedModel(slim)
    what = ", ".join(f"{count} {op}" for op, count in gone.items())
    return PreparedModel(slim, [f"simplified: {sum(before.values())} → {sum(after.values())} nodes, gone: {what}"])


def infer_shapes(model: Model) -> Model:
    """Store the shapes of inner tensors and outputs, as far as they can be inferred. Returns the model itself."""
    from app.conversion.toolchains.graph.shapes import FAILURES, inferred, skeleton

    bare = skeleton(model)
    for output in bare.graph.output:
        if any(not axis.dim_value for axis in output.type.tensor_type.shape.dim):
            output.type.tensor_type.ClearField("shape")  # else a symbolic axis would outlive the fixed inputs
    try:
        known = inferred(bare).graph
    except FAILURES:
        return model
    constants = {tensor.name for tensor in model.graph.initializer}
    del model.graph.value_info[:]
    model.graph.value_info.extend(value for value in known.value_info if value.name not in constants)
    for output, fresh in zip(model.graph.output, known.output, strict=True):
        if fresh.type.tensor_type.HasField("shape"):
            output.CopyFrom(fresh)
    return model


def operator_counts(model: Model) -> dict[str, int]:
    return dict(Counter(node.op_type for node in model.graph.node))


def _has_same_interface(first: Model, second: Model) -> bool:
    return all(
        [value.name for value in getattr(first.graph, part)] == [value.name for value in getattr(second.graph, part)]
        for part in ("input", "output")
    )


def fold_gemm_factors(model: Model) -> list[str]:
    """Multiplies the factors of all Gemm nodes (alpha, beta) into their constants: onnxruntime quantizes the bias
    without them, and so changes the results."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    changed = 0
    for node in model.graph.node:
        if node.op_type != "Gemm":
            continue
        factors = {attribute.name: attribute for attribute in node.attribute if attribute.name in ("alpha", "beta")}
        for name, place in (("alpha", 1), ("beta", 2)):
            factor = factors.get(name)
            tensor = constants.get(node.input[place]) if len(node.input) > place else None
            if factor is None or factor.f == 1.0 or tensor is None:
                continue
            node.input[place] = _add_scaled(model.graph, tensor, factor.f)
            factor.f, changed = 1.0, changed + 1
    return [f"{changed} factors of Gemm are now in its weights"] if changed else []


def _add_scaled(graph: Any, tensor: Any, factor: float) -> str:
    """Returns the name of a scaled copy; one copy serves all nodes that need the same, and the original may be
    shared."""
    from onnx import numpy_helper

    name = f"{tensor.name}_times_{factor:g}"
    if all(known.name != name for known in graph.initializer):
        values: Array = numpy_helper.to_array(tensor)
        graph.initializer.append(numpy_helper.from_array((values * factor).astype(values.dtype), name))
    return name
