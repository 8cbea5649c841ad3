"""The sandbox entry point of triage: cuts a part out of a model, with random weights and samples to run it on."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.graph.shapes import FAILURES, inferred
from app.inference.errors import InvalidModel
from app.kit.text.json_values import JsonObject

SAMPLES = 2
WEIGHT_SIZE_LEAST = 17
"""Smaller tensors are bounds, shapes and scales: they are structure and stay."""
DEVIATION = 0.05
"""Of random weights."""


def cut(request: JsonObject, progress: Progress) -> JsonObject:
    """Writes the nodes [first, end) of a model as a separate model.

    Args:
        request: {"model": path, "first", "end": node numbers in graph order; end None: all, "shapes": fixed shapes of
            inputs, "output": path of the part, "samples": path of a zip of samples for it}.

    Returns:
        {"total": nodes of the whole model, "nodes": [{"name", "op_type"}] of the part}.

    Raises:
        InvalidModel: The part has no inputs of known shape, or no output.
    """
    del progress
    model = graph.load(Path(request["model"]))
    graph.sort_nodes(model)
    graph.fix_shapes(model, {name: tuple(shape) for name, shape in request["shapes"].items()})
    total = len(model.graph.node)
    end = total if request["end"] is None else request["end"]
    part = _extract_part(_with_shapes(model), request["first"], end)
    Path(request["output"]).write_bytes(part.SerializeToString())
    _write_samples(part, Path(request["samples"]))
    nodes = [{"name": node.name, "op_type": node.op_type} for node in part.graph.node]
    return {"total": total, "nodes": nodes}


def _with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """As far as they can be inferred."""
    try:
        return inferred(model)
    except FAILURES:
        return model


def _extract_part(model: onnx.ModelProto, first: int, end: int) -> onnx.ModelProto:
    nodes = list(model.graph.node)[first:end]
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {name for node in nodes for name in node.output if name}
    read = [name for node in nodes for name in node.input if name]
    outside = {name for node in [*model.graph.node[:first], *model.graph.node[end:]] for name in node.input}
    kept = {value.name for value in model.graph.output} | outside
    inputs = list(dict.fromkeys(name for name in read if name not in made and name not in stored))
    outputs = [name for node in nodes for name in node.output if name in made and (name in kept or name not in read)]
    values = {value.name: value for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)}
    random = np.random.default_rng(0)
    part = helper.make_graph(
        [_randomize_constant(node, random) for node in nodes],
        "part",
        [_require_static(values.get(name), name) for name in inputs],
        [values[name] if name in values else onnx.ValueInfoProto(name=name) for name in outputs],
        [_randomize(stored[name], random) for name in dict.fromkeys(read) if name in stored],
    )
    if not part.input or not part.output:
        raise InvalidModel("this part of the model has no input or no output")
    made_model = helper.make_model(part, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    made_model.functions.extend(model.functions)
    made_model.metadata_props.extend(model.metadata_props)
    return made_model


def _require_static(value: onnx.ValueInfoProto | None, name: str) -> onnx.ValueInfoProto:
    """Returns the tensor; one of unknown shape is refused, because it could not become an input."""
    dims = value.type.tensor_type.shape.dim if value is not None else ()
    if value is None or not all(dim.dim_value > 0 for dim in dims) or not value.type.tensor_type.HasField("shape"):
        raise InvalidModel(f"the shape of tensor {name!r} is not known")
    return value


def _randomize_constant(node: onnx.NodeProto, random: np.random.Generator) -> onnx.NodeProto:
    if node.op_type != "Constant":
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.HasField("t"):
            attribute.t.CopyFrom(_randomize(attribute.t, random))
    return copy


def _randomize(tensor: onnx.TensorProto, random: np.random.Generator) -> onnx.TensorProto:
    """The same tensor with other values, if it contains weights."""
    values = numpy_helper.to_array(tensor)
    if values.dtype.kind != "f" or values.size < WEIGHT_SIZE_LEAST:
        return tensor
    fresh = random.normal(0, DEVIATION, values.shape).astype(values.dtype)
    return numpy_helper.from_array(fresh, tensor.name)


def _write_samples(part: onnx.ModelProto, path: Path) -> None:
    random = np.random.default_rng(1)
    specs = graph.graph_inputs(part)
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(SAMPLES):
            arrays = {spec.name: _make_sample(spec, random) for spec in specs}
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)  # type: ignore[arg-type]  # its stub takes the names for its own flag
            archive.writestr(f"{index}.npz", buffer.getvalue())


def _make_sample(spec: graph.TensorSpec, random: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = [side for side in spec.shape if isinstance(side, int)]
    return random.random(shape).astype(np.dtype(spec.dtype))
