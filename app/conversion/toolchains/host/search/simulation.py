"""The end of a float model from a node on, in which single tensors can be rounded like int8.

Every tensor of its first section passes through x → clip(round(x / scale), low, high) × scale, with these four numbers
as inputs of the graph; weights of that section are inputs, too. So one session measures the individual cost of each,
and nothing before the section is computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import Range, element_types
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.integers import activation_parameters
from app.inference.runtimes.sessions import open_session

ROUNDED = "__modelmill_rounded"
NUMBERS = ("inverse", "low", "high", "scale")
OFF_LEVELS = 1 << 22
"""Number of levels for a tensor that stays as it is: finer than float32 can represent."""


class Suffix:
    """The nodes from `begin` on, as a session.

    Args:
        end: tensors produced by nodes from `begin` to before this one can be rounded; with begin 0 the inputs can be,
            too.
        outputs: the tensors that it computes.
    """

    def __init__(
        self, model: Any, begin: int, end: int, activations: Iterable[str], weights: Iterable[str], outputs: list[str]
    ) -> None:
        nodes = list(model.graph.node)
        made = {name for node in nodes[begin:end] for name in node.output}
        if begin == 0:
            made |= {value.name for value in model.graph.input}
        self.activations = [name for name in activations if name in made]
        read = {name for node in nodes[begin:end] for name in node.input}
        self.weights = [name for name in weights if name in read]
        self.outputs = outputs
        constants = {tensor.name for tensor in model.graph.initializer}
        later = {name for node in nodes[begin:] for name in node.output}
        needed = {name for node in nodes[begin:] for name in node.input} | set(outputs)
        self.inputs = sorted(needed - constants - later - {""})
        self._model = _build_suffix(model, begin, self)

    def open(self) -> Any:
        """Opens a session with one thread; runs may overlap."""
        data = self._model.SerializeToString()
        self._model = None
        return open_session(data, 1)


def feeds(tensor: str, limits: Range, kind: Any, headroom: float = 1.0) -> dict[str, Array]:
    """Returns the four numbers that round a tensor to integers.

    Args:
        tensor: its name.
        limits: its lowest and highest value.
        kind: the type of the integers.
        headroom: by which the limits are multiplied first.
    """
    scale, zero = activation_parameters(limits, kind, headroom=headroom)
    levels = np.iinfo(kind)
    return _build_feeds(tensor, 1.0 / scale, int(levels.min) - zero, int(levels.max) - zero, scale)


def off(tensor: str, limits: Range) -> dict[str, Array]:
    """Returns the four numbers that leave a tensor with about these limits as it is."""
    reach = max(abs(limits[0]), abs(limits[1]), 1e-20) * 4
    return _build_feeds(tensor, OFF_LEVELS / reach, -2.0 * OFF_LEVELS, 2.0 * OFF_LEVELS, reach / OFF_LEVELS)


def _build_feeds(tensor: str, *values: float) -> dict[str, Array]:
    return {
        f"{tensor}{ROUNDED}_{name}": np.array(value, np.float32) for name, value in zip(NUMBERS, values, strict=True)
    }


def _build_suffix(model: Any, begin: int, suffix: Suffix) -> Any:
    from onnx import helper

    types, dims = element_types(model), _infer_shapes(model)
    nodes = [_copy(node) for node in model.graph.node[begin:]]
    rounded = set(suffix.activations)
    for node in nodes:
        for place, name in enumerate(node.input):
            if name in rounded:
                node.input[place] = name + ROUNDED
    extra, numbers = [], []
    for name in suffix.activations:
        parameters = [f"{name}{ROUNDED}_{number}" for number in NUMBERS]
        extra += _build_rounding(name, parameters)
        numbers += [helper.make_tensor_value_info(parameter, 1, []) for parameter in parameters]
    outputs = [name + ROUNDED if name in rounded else name for name in suffix.outputs]
    inputs = [helper.make_tensor_value_info(n, types.get(n, 1), dims.get(n)) for n in suffix.inputs]
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    read = {name for node in nodes for name in node.input}
    kept = [constants[name] for name in constants if name in read or name in outputs]
    own = [constants[name] for name in suffix.weights]
    inputs += [helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)) for tensor in own]
    values = [helper.make_tensor_value_info(name, types.get(name.removesuffix(ROUNDED), 1), None) for name in outputs]
    graph = helper.make_graph(extra + nodes, "suffix", inputs + numbers, values, kept)
    fresh = helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(model.ir_version, 8))
    return _sort_nodes(fresh)


def _build_rounding(name: str, parameters: list[str]) -> list[Any]:
    from onnx import helper

    inverse, low, high, scale = parameters
    steps = [name + ROUNDED + suffix for suffix in ("_a", "_b", "_c")]
    return [
        helper.make_node("Mul", [name, inverse], [steps[0]]),
        helper.make_node("Round", [steps[0]], [steps[1]]),
        helper.make_node("Clip", [steps[1], low, high], [steps[2]]),
        helper.make_node("Mul", [steps[2], scale], [name + ROUNDED]),
    ]


def _copy(node: Any) -> Any:
    import onnx

    fresh = onnx.NodeProto()
    fresh.CopyFrom(node)
    return fresh


def _sort_nodes(model: Any) -> Any:
    from app.conversion.toolchains.graph import sort_nodes

    sort_nodes(model)
    return model


def _infer_shapes(model: Any) -> Mapping[str, list[int | None]]:
    values = [*model.graph.value_info, *model.graph.input, *model.graph.output]
    return {
        v.name: [d.dim_value or None for d in v.type.tensor_type.shape.dim]
        for v in values
        if v.type.tensor_type.HasField("shape")
    }
