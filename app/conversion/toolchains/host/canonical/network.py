"""A network without the names and the order that its file happens to have. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field


class NotComparable(ValueError):
    """Its nodes read what nobody makes."""


@dataclass(frozen=True)
class Node:
    operator: str
    attributes: Mapping[str, str | Graph]
    """A digest, or the graph that it is."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, str]
    """Name → digest of type, shape and content."""
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Network:
    graph: Graph
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else is to be the same: shapes, versions, what stands in the metadata."""


def output_digests(graph: Graph) -> dict[str, str]:
    """What each output of a network is: equal for equal networks, whatever their inner names and their order.

    Raises:
        NotComparable: A node reads what nobody makes.
    """
    values = _values(graph, {name: _digest("input", name) for name in graph.inputs})
    return {name: _value(values, name) for name in graph.outputs}


def _values(graph: Graph, known: Mapping[str, str]) -> dict[str, str]:
    values = {**known, **graph.constants, "": "absent"}
    waiting = list(graph.nodes)
    while waiting:
        later = []
        for node in waiting:
            if _reads(node) <= values.keys():
                values |= _made_by(node, values)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise NotComparable(f"a node {later[0].operator} reads what no node makes")
        waiting = later
    return values


def _made_by(node: Node, values: Mapping[str, str]) -> dict[str, str]:
    attributes = {
        name: value if isinstance(value, str) else _subgraph(value, values) for name, value in node.attributes.items()
    }
    whole = _digest(node.operator, attributes, [values[name] for name in node.inputs])
    return {name: _digest(whole, place) for place, name in enumerate(node.outputs) if name}


def _subgraph(graph: Graph, outer: Mapping[str, str]) -> str:
    """Its inputs have no names that anybody knows: they go by their places."""
    own = {name: _digest("place", place) for place, name in enumerate(graph.inputs)}
    values = _values(graph, {**outer, **own})
    return _digest([_value(values, name) for name in graph.outputs])


def _reads(node: Node) -> set[str]:
    """Also what its subgraphs read of what is around them."""
    return {
        *node.inputs,
        *(name for value in node.attributes.values() if isinstance(value, Graph) for name in _outer(value)),
    }


def _outer(graph: Graph) -> set[str]:
    own = {*graph.inputs, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}
    return {name for node in graph.nodes for name in _reads(node)}.union(graph.outputs) - own - {""}


def _value(values: Mapping[str, str], name: str) -> str:
    try:
        return values[name]
    except KeyError:
        raise NotComparable(f"nobody makes the output {name!r}") from None


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
