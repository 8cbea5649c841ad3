"""The features of a graph that takes pictures by which its family is recognized."""

from __future__ import annotations

import onnx

from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.graph.specs import TensorSpec, graph_inputs, graph_outputs
from app.inference.model_families import GraphSignature
from app.inference.preprocessing import Shape, axis_order


def signature_of(model: onnx.ModelProto) -> GraphSignature | None:
    """None for a model that takes no pictures: more than one input, or one of another form."""
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
    """With None for the sides that are not known."""
    return tuple(side if isinstance(side, int) else None for side in spec.shape)
