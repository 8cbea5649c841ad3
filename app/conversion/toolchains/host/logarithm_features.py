"""Features whose logarithm a network reads, such as the power of frequencies. Pure.

A logarithm needs its input to be right relative to its size: of a small power that 8 or 16 bits round to 0 it makes a
large error. So what computes such features stays in float, as preprocessing outside of the model would.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

EXPONENTS = frozenset({"Exp"})
SUMS = frozenset({"Add", "ReduceSum", "Sum"})
"""Log of a sum of Exp is a softplus or a log-softmax, which an activation is made of, too."""


def logarithm_features(model: Any, weighted: Collection[str]) -> set[str]:
    """Returns the names of the nodes that lead to a logarithm that layers with weights read.

    Args:
        model: onnx.ModelProto whose nodes are in topological order, each with a name.
        weighted: operators of layers with weights.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    read: set[str] = set()  # tensors that lead to a layer with weights
    logarithms = []
    for node in reversed(model.graph.node):
        is_read = bool(read & set(node.output))
        if node.op_type in weighted or is_read:
            read.update(node.input)
        if node.op_type == "Log" and is_read and not _is_of_exponents(node, makers):
            logarithms.append(node)
    names: set[str] = set()
    while logarithms:
        node = logarithms.pop()
        if node.name not in names:
            names.add(node.name)
            logarithms += [makers[name] for name in node.input if name in makers]
    return names


def _is_of_exponents(node: Any, makers: Mapping[str, Any]) -> bool:
    before = [makers[name] for name in node.input if name in makers]
    return any(one.op_type in EXPONENTS or (one.op_type in SUMS and _is_of_exponents(one, makers)) for one in before)
