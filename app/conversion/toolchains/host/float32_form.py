"""The form of a float16 model that computes in float32, from the same inputs to the same outputs.

That is what is quantized. Operators on integers have scales in float32, so onnxruntime would compute layers with others
in float; and the scale of a bias, the product of two small numbers, is zero in float16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.host.calibration import element_types

FLOAT32 = "__modelmill_float32"
"""Suffix of inputs and outputs of the graph, in float32."""
TYPES = frozenset({"to", "dtype", "stash_type"})
"""Attributes that name a type of numbers."""


def compute_in_float32(model: Any) -> None:
    """Changes a model (onnx.ModelProto) so that nothing between its inputs and outputs is in float16. Tensors keep
    their names, except for those that are inputs or outputs in float16."""
    from onnx import TensorProto, numpy_helper

    half, full, graph = TensorProto.FLOAT16, TensorProto.FLOAT, model.graph
    given, made = ([v.name for v in values if _get_type(v) == half] for values in (graph.input, graph.output))
    for tensor in walk.tensors(model):
        if tensor.data_type == half:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))
    for node in walk.nodes(model):
        for attribute in node.attribute:
            if attribute.name in TYPES and attribute.i == half:
                attribute.i = full
    inner = [value for one in walk.graphs(model) for value in one.value_info]
    inner += [value for one in walk.below(graph.node) for value in (*one.input, *one.output)]
    for value in inner:
        if _get_type(value) == half:
            value.type.tensor_type.elem_type = full
    _convert_ends(model, given, [name for name in made if name not in given])
    _remove_casts(model)


def _get_type(value: Any) -> int:
    return int(value.type.tensor_type.elem_type) if value.type.HasField("tensor_type") else 0


def _convert_ends(model: Any, inputs: list[str], outputs: list[str]) -> None:
    """Inserts casts after the inputs and before the outputs."""
    from onnx import TensorProto, helper

    graph, ends = model.graph, {*inputs, *outputs}
    _rename(model, {name: name + FLOAT32 for name in ends})
    known = {value.name for value in graph.value_info}
    for value in (*graph.input, *graph.output):
        if value.name in ends and value.name + FLOAT32 not in known:
            graph.value_info.add().CopyFrom(value)
            graph.value_info[-1].name += FLOAT32
            graph.value_info[-1].type.tensor_type.elem_type = TensorProto.FLOAT
    for name in inputs:
        node = helper.make_node("Cast", [name], [name + FLOAT32], f"{name}{FLOAT32}_cast", to=TensorProto.FLOAT)
        graph.node.insert(0, node)
    for name in outputs:
        node = helper.make_node("Cast", [name + FLOAT32], [name], f"{name}{FLOAT32}_cast", to=TensorProto.FLOAT16)
        graph.node.append(node)


def _remove_casts(model: Any) -> None:
    """Removes casts from float32 to float32."""
    from onnx import TensorProto

    graph, outputs = model.graph, {value.name for value in model.graph.output}
    types = element_types(model) | {tensor.name: tensor.data_type for tensor in graph.initializer}
    sources: dict[str, str] = {}
    for node in [node for node in graph.node if node.op_type == "Cast" and node.output[0] not in outputs]:
        source = sources.get(node.input[0], node.input[0])
        if types.get(source) == TensorProto.FLOAT and node.attribute[0].i == TensorProto.FLOAT:
            sources[node.output[0]] = source
            graph.node.remove(node)
    for node in walk.nodes(model):
        for place, name in enumerate(node.input):
            node.input[place] = sources.get(name, name)


def _rename(model: Any, names: Mapping[str, str]) -> None:
    """Renames tensors in all nodes, and among constants and inner tensors of the graph."""
    for node in walk.nodes(model) if names else ():
        for places in (node.input, node.output):
            for place, name in enumerate(places):
                places[place] = names.get(name, name)
    for stored in (*model.graph.initializer, *model.graph.value_info):
        stored.name = names.get(stored.name, stored.name)
