"""The first nodes of a graph, for checks of its first layers. Reads only weights; nothing is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
PASSING = frozenset({"Transpose", "Cast", "Identity", "Pad", "Reshape", "Dropout"})
STEPS_MAX = 8


class GraphView:
    """Who reads a tensor, and the stored numbers by name."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            if node.op_type == "Constant":
                self._tensors.update(_constant(node))
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def first(self, name: str) -> onnx.NodeProto | None:
        """The one node that first computes with the tensor, past those that only pass it on."""
        for _ in range(STEPS_MAX):
            readers = self._readers.get(name, [])
            if len(readers) != 1:
                return None
            if readers[0].op_type not in PASSING:
                return readers[0]
            name = readers[0].output[0]
        return None

    def readers(self, name: str) -> Sequence[onnx.NodeProto]:
        """The nodes that read the tensor."""
        return self._readers.get(name, ())

    def numbers(self, name: str) -> Array | None:
        tensor = self._tensors.get(name)
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        try:
            return np.asarray(numpy_helper.to_array(tensor), dtype=np.float64)
        except (ValueError, TypeError, KeyError):  # raw bytes that do not fit the shape, or a type that onnx has not
            return None


def _constant(node: onnx.NodeProto) -> Mapping[str, onnx.TensorProto]:
    values = [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    return {node.output[0]: values[0]} if values else {}
