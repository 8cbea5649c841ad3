"""Outputs whose last operator hides errors: a sigmoid or a softmax. Pure."""

from __future__ import annotations

from typing import Any

SATURATING = frozenset({"Softmax", "Sigmoid"})
MOVES = frozenset({"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity"})


def saturating_outputs(model: Any) -> dict[str, str]:
    """Returns the outputs that come from a softmax or sigmoid, by name, with that operator.

    If a model is certain, such an output is nearly 0 or 1 whatever int8 does before it. So its SNR looks too good; the
    layers before it are more informative.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    saturating: dict[str, str] = {}
    for output in model.graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in MOVES and node.input:
            node = makers.get(node.input[0])
        if node is not None and node.op_type in SATURATING:
            saturating[output.name] = node.op_type
    return saturating
