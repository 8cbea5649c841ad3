"""Inputs and outputs of a graph, and small facts that every reader of a graph needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

UNKNOWN_RANK = ("...",)
DEFAULT_DOMAINS = ("", "ai.onnx")
NO_NAME = "?"
"""What Paddle's exporter calls every axis that it does not know, so that two of them need not be equal."""
Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class TensorSpec:
    """A graph input or output."""

    name: str
    shape: Shape
    """Numbers, names of symbolic axes, None for unnamed unknown axes; ("...",) if even the rank is unknown."""
    dtype: str
    """The numpy name ("float32"), "string", or "unknown"; "sequence", "map", "optional" for other values."""

    @property
    def is_static(self) -> bool:
        return all(isinstance(axis, int) for axis in self.shape)

    @property
    def is_rank_known(self) -> bool:
        return self.shape != UNKNOWN_RANK

    def shape_text(self) -> str:
        """The shape as messages show it: [N, 3, ?, ?]."""
        return f"[{', '.join('?' if axis is None else str(axis) for axis in self.shape)}]"


def graph_inputs(model: onnx.ModelProto) -> list[TensorSpec]:
    """Returns what a caller has to feed. Graphs of IR 3 list their initializers as inputs, too; those are omitted."""
    return [_read_spec(value) for value in input_values(model)]


def input_values(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Returns the messages behind graph_inputs, which can be changed in place."""
    graph = model.graph
    fixed = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in fixed]


def graph_outputs(model: onnx.ModelProto) -> list[TensorSpec]:
    return [_read_spec(value) for value in model.graph.output]


def opset_of(model: onnx.ModelProto) -> int:
    """Returns the version of the default operator set; 1 if the model names none."""
    return next((int(entry.version) for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS), 1)


def axis_of(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Returns a number above 0, a name, or None. Exporters write 0 or -1 for "any", or the name "?"."""
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return None if dim.dim_param == NO_NAME else dim.dim_param or None


def dtype_name(elem_type: int) -> str:
    """Returns the numpy name of an ONNX element type, as in TensorSpec.dtype."""
    if elem_type == onnx.TensorProto.STRING:
        return "string"
    try:
        return str(np.dtype(helper.tensor_dtype_to_np_dtype(elem_type)).name)
    except (KeyError, ValueError, TypeError):
        return "unknown"


def _read_spec(value: onnx.ValueInfoProto) -> TensorSpec:
    kind = value.type.WhichOneof("value")
    if kind is not None and kind != "tensor_type":
        return TensorSpec(value.name, UNKNOWN_RANK, kind.removesuffix("_type"))
    tensor = value.type.tensor_type
    shape = tuple(axis_of(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else UNKNOWN_RANK
    return TensorSpec(value.name, shape, dtype_name(tensor.elem_type))
