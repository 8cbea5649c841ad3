"""Reads and writes the constants of a graph, for rewrites that compute the same with other constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array


class Constants:
    """The constants of a graph (onnx.GraphProto), and which nodes make and read each tensor."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.outputs = {output.name for output in graph.output}
        self.makers = {name: node for node in graph.node for name in node.output}
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._uses = Counter(name for node in graph.node for name in node.input)
        self._readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def is_own(self, name: str) -> bool:
        """Returns whether it is a float32 constant that only one layer reads."""
        return name in self._tensors and self._tensors[name].data_type == 1 and self._uses[name] == 1

    def readers(self, tensor: str) -> list[Any]:
        """Returns the nodes (onnx.NodeProto) that read a tensor; one that reads it twice is there twice."""
        return self._readers.get(tensor, [])

    def uses(self, tensor: str) -> int:
        return self._uses[tensor]

    def shape(self, name: str) -> Sequence[int]:
        return tuple(self._tensors[name].dims)

    def array(self, name: str) -> Array:
        from onnx import numpy_helper

        values: Array = numpy_helper.to_array(self._tensors[name])
        return values

    def write(self, name: str, values: Array) -> None:
        from onnx import numpy_helper

        self._tensors[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))

    def insert(self, node: Any, constant: Array, before: Any) -> None:
        """Insert a node that passes on its first input changed by a constant, which is named as its last input.

        Args:
            node: onnx.NodeProto; its output has the type and shape of its first input.
            constant: float32.
            before: the node (onnx.NodeProto of the graph) before which it is placed.
        """
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(constant, node.input[-1]))
        place = next(number for number, one in enumerate(self.graph.node) if one.name == before.name)
        self.graph.node.insert(place, node)
        for known in [value for value in self.graph.value_info if value.name == node.input[0]]:
            self.graph.value_info.add().CopyFrom(known)
            self.graph.value_info[-1].name = node.output[0]


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """Returns the value of a node's (onnx.NodeProto) attribute."""
    from onnx import helper

    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)
