"""How large a graph becomes when each call of a model's own functions is replaced by the function's nodes.

Checker, shape inference and runtimes do that. A file of a few kilobytes can describe billions of nodes in this way:
functions that call the next one twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import onnx

from app.conversion.toolchains.graph import walk

_Key = tuple[str, str]
"""Domain and name of a function. Overloads of a name count as the largest of them."""


def expanded_nodes(model: onnx.ModelProto) -> int | None:
    """Returns the number of nodes after all calls are replaced; None if a function calls itself, also by way of
    others."""
    functions: dict[_Key, list[list[_Key]]] = {}
    for function in model.functions:
        functions.setdefault((function.domain, function.name), []).append(list(_calls(function.node)))
    callees = {
        key: {call for calls in bodies for call in calls if call in functions} for key, bodies in functions.items()
    }
    sizes: dict[_Key, int] = {}
    try:
        for key in TopologicalSorter(callees).static_order():
            sizes[key] = max(sum(sizes.get(call, 1) for call in calls) for calls in functions[key])
    except CycleError:
        return None
    return sum(sizes.get(call, 1) for call in _calls(model.graph.node))


def _calls(nodes: Iterable[onnx.NodeProto]) -> Iterator[_Key]:
    """Yields what each node is, including those of nested graphs."""
    for node in nodes:
        yield node.domain, node.op_type
    for graph in walk.below(nodes):
        for node in graph.node:
            yield node.domain, node.op_type
