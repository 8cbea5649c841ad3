"""Outputs whose last operator hides errors: a sigmoid or a softmax. Pure.

An output of a sigmoid that is nearly 0 everywhere, as of a detector that detects nothing in a picture, has no SNR that
says anything. Where that is so for most samples, it is judged by the sigmoid's input on these, the logits, which
`expose` makes another output of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.conversion.toolchains.host.inputs import Array

SATURATING = frozenset({"Softmax", "Sigmoid"})
FAINT = 1 / 512
"""An output of a sigmoid that nowhere reaches this is 0 in 8 bits."""
MOVES = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators that only move values."""
FLOATS = (1, 10, 11)
"""TensorProto's types of floats."""


def saturating_outputs(model: Any) -> dict[str, str]:
    """Returns the outputs that come from a softmax or sigmoid, by name, with that operator.

    If a model is certain, such an output is nearly 0 or 1 whatever int8 does before it. So its SNR looks too good; the
    layers before it are more informative.
    """
    nodes = _find_last_nodes(model)
    return {name: node.op_type for name, node in nodes.items() if node is not None and node.op_type in SATURATING}


def logits_of(model: Any) -> dict[str, str]:
    """Returns the input of the sigmoid by the output that comes from it, except inputs that are outputs themselves."""
    outputs = {output.name for output in model.graph.output}
    nodes = _find_last_nodes(model)
    sigmoids = {name: node for name, node in nodes.items() if node is not None and node.op_type == "Sigmoid"}
    makers = {output for node in model.graph.node for output in node.output}
    return {name: node.input[0] for name, node in sigmoids.items() if node.input[0] in makers - outputs}


def expose(model: Any, logits: Mapping[str, str]) -> None:
    """Makes the logits outputs of the graph, too."""
    from onnx import helper

    types = {value.name: value.type.tensor_type.elem_type for value in (*model.graph.output, *model.graph.value_info)}
    rows = {tensor: types.get(tensor, types[name]) for name, tensor in logits.items()}
    model.graph.output.extend(helper.make_tensor_value_info(tensor, kind, None) for tensor, kind in rows.items())


def conceal(model: Any, logits: Mapping[str, str]) -> None:
    """Takes back what `expose` did."""
    outputs = [output for output in model.graph.output if output.name not in logits.values()]
    del model.graph.output[:]
    model.graph.output.extend(outputs)


def find_judged_tensor(name: str, expected: Mapping[str, Array], logits: Mapping[str, str]) -> str:
    """Returns the tensor by which an output is judged on a sample.

    Args:
        expected: the float model's outputs, with the exposed ones.
    """
    is_faint = name in logits and float(expected[name].max(initial=0.0)) < FAINT
    return logits[name] if is_faint else name


def find_judged_outputs(
    names: Iterable[str], expected: Mapping[str, Array], logits: Mapping[str, str]
) -> dict[str, str]:
    """Returns the same for each of the outputs."""
    return {name: find_judged_tensor(name, expected, logits) for name in names if name not in logits.values()}


def _find_last_nodes(model: Any) -> dict[str, Any]:
    """Returns the node that makes each output, before operators that only move values; None for an input."""
    makers = {output: node for node in model.graph.node for output in node.output}
    nodes: dict[str, Any] = {}
    for output in model.graph.output:
        node = makers.get(output.name)
        while node is not None and _moves_values(node):
            node = makers.get(node.input[0])
        nodes[output.name] = node
    return nodes


def _moves_values(node: Any) -> bool:
    is_float_cast = node.op_type == "Cast" and node.attribute[0].i in FLOATS
    return bool(node.input) and (node.op_type in MOVES | {"Flatten"} or is_float_cast)
