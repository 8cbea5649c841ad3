"""A network regardless of the names and the order in its file. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field


class NotComparable(ValueError):
    """Nodes read a value that nothing produces."""


@dataclass(frozen=True)
class Node:
    operator: str
    attributes: Mapping[str, str | Graph]
    """Digests, or graphs for attributes that are graphs."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, str]
    """Digest of type, shape and content, by name."""
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Network:
    graph: Graph
    facts: Mapping[str, str] = field(default_factory=dict)
    """What else has to be equal: shapes, versions, metadata."""


def output_digests(graph: Graph) -> dict[str, str]:
    """Returns a digest for each output of a network, equal for equal networks, whatever their inner names and order.

    Raises:
        NotComparable: A node reads a value that nothing produces.
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
    """Its inputs are identified by position, since their names have no meaning outside."""
    own = {name: _digest("place", place) for place, name in enumerate(graph.inputs)}
    values = _values(graph, {**outer, **own})
    return _digest([_value(values, name) for name in graph.outputs])


def _reads(node: Node) -> set[str]:
    """Returns what a node reads, including the outer values that its subgraphs read."""
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
