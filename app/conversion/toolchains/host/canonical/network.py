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
    values = _map_values(graph, {name: _compute_digest("input", name) for name in graph.inputs})
    return {name: _get_value(values, name) for name in graph.outputs}


def _map_values(graph: Graph, known: Mapping[str, str]) -> dict[str, str]:
    values = {**known, **graph.constants, "": "absent"}
    waiting = list(graph.nodes)
    while waiting:
        later = []
        for node in waiting:
            if _list_reads(node) <= values.keys():
                values |= _map_outputs(node, values)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise NotComparable(f"a node {later[0].operator} reads what no node makes")
        waiting = later
    return values


def _map_outputs(node: Node, values: Mapping[str, str]) -> dict[str, str]:
    attributes = {
        name: value if isinstance(value, str) else _digest_subgraph(value, values)
        for name, value in node.attributes.items()
    }
    whole = _compute_digest(node.operator, attributes, [values[name] for name in node.inputs])
    return {name: _compute_digest(whole, place) for place, name in enumerate(node.outputs) if name}


def _digest_subgraph(graph: Graph, outer: Mapping[str, str]) -> str:
    """Its inputs are identified by position, since their names have no meaning outside."""
    own = {name: _compute_digest("place", place) for place, name in enumerate(graph.inputs)}
    values = _map_values(graph, {**outer, **own})
    return _compute_digest([_get_value(values, name) for name in graph.outputs])


def _list_reads(node: Node) -> set[str]:
    """Returns what a node reads, including the outer values that its subgraphs read."""
    return {
        *node.inputs,
        *(name for value in node.attributes.values() if isinstance(value, Graph) for name in _list_outer(value)),
    }


def _list_outer(graph: Graph) -> set[str]:
    own = {*graph.inputs, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}
    return {name for node in graph.nodes for name in _list_reads(node)}.union(graph.outputs) - own - {""}


def _get_value(values: Mapping[str, str], name: str) -> str:
    try:
        return values[name]
    except KeyError:
        raise NotComparable(f"nobody makes the output {name!r}") from None


def _compute_digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
