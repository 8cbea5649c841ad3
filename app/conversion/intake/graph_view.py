"""The first nodes of a graph, for checks of its first layers. Reads only weights and runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
PASSING = frozenset({"Transpose", "Cast", "Identity", "Pad", "Reshape", "Dropout"})
STEPS_MAX = 8


class GraphView:
    """The readers of each tensor, and the stored numbers by name."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            if node.op_type == "Constant":
                self._tensors.update(_read_constant(node))
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def first(self, name: str) -> onnx.NodeProto | None:
        """Returns the only node that computes with the tensor, after nodes that just pass it on; None if there are
        several."""
        for _ in range(STEPS_MAX):
            readers = self._readers.get(name, [])
            if len(readers) != 1:
                return None
            if readers[0].op_type not in PASSING:
                return readers[0]
            name = readers[0].output[0]
        return None

    def numbers(self, name: str) -> Array | None:
        """Returns the stored numbers of a tensor; None if it has none, or damaged ones."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        try:
            return np.asarray(numpy_helper.to_array(tensor), dtype=np.float64)
        except (ValueError, TypeError, KeyError):  # raw bytes that do not fit the shape, or a type unknown to onnx
            return None


def _read_constant(node: onnx.NodeProto) -> Mapping[str, onnx.TensorProto]:
    values = [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    return {node.output[0]: values[0]} if values else {}
