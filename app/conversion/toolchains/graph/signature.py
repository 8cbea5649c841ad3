"""The features by which the family of a graph that takes pictures is recognized."""

from __future__ import annotations

import onnx

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.specs import TensorSpec, graph_inputs, graph_outputs
from app.inference.model_families import GraphSignature
from app.inference.preprocessing import Shape, axis_order


def signature_of(model: onnx.ModelProto) -> GraphSignature | None:
    """Returns the features of a model; None if it has more than one input or does not take pictures."""
    inputs = graph_inputs(model)
    shape = open_shape(inputs[0]) if len(inputs) == 1 else ()
    order = axis_order(shape)
    if order is None:
        return None
    name, outputs = inputs[0].name, graph_outputs(model)
    return GraphSignature(
        input=shape,
        order=order,
        outputs=tuple(open_shape(output) for output in outputs),
        operators=frozenset(node.op_type for node in walk.nodes(model)),
        first=next((node.op_type for node in model.graph.node if name in node.input), ""),
        names=(name, *(output.name for output in outputs)),
        producer=f"{model.producer_name} {model.producer_version}",
        metadata={entry.key: entry.value for entry in model.metadata_props},
    )


def open_shape(spec: TensorSpec) -> Shape:
    """Returns the shape of a picture, with None for unknown sides."""
    return tuple(side if isinstance(side, int) else None for side in spec.shape)
