"""Two files of the same name, compared as networks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.conversion.toolchains import graph as onnx_graph
from app.conversion.toolchains.host import provenance
from app.conversion.toolchains.host.canonical.network import Graph, Network, Node, NotComparable, output_digests
from app.conversion.toolchains.host.canonical.ort_form import read_host_nef
from app.kit.errors import ModelmillError
from app.kit.text.plain_text import names_text

OF_FILES_BEFORE = frozenset({provenance.ONNX_SHA256})
"""Metadata with digests of files that are compared separately."""


def read_onnx(path: Path) -> Network:
    """Reads an ONNX file as a network.

    Raises:
        ModelmillError: What reading a model raises.
    """
    model = onnx_graph.load(path)
    facts = {f"metadata {key}": text for key, text in provenance.read(model).items() if key not in OF_FILES_BEFORE}
    facts |= {f"opset {opset.domain or 'ai.onnx'}": str(opset.version) for opset in model.opset_import}
    facts["IR version"] = str(model.ir_version)
    for kind, values in (("input", model.graph.input), ("output", model.graph.output)):
        facts |= {f"{kind} {value.name}": _digest_bytes(value.type) for value in values}
    return Network(_normalize_graph(model.graph), facts)


def _normalize_graph(graph: Any) -> Graph:
    constants = {tensor.name: _digest_tensor(tensor) for tensor in graph.initializer}
    constants |= {sparse.values.name: _digest_bytes(sparse) for sparse in graph.sparse_initializer}
    return Graph(
        tuple(value.name for value in graph.input if value.name not in constants),
        tuple(value.name for value in graph.output),
        constants,
        tuple(_normalize_node(node) for node in graph.node),
    )


def _normalize_node(node: Any) -> Node:
    import onnx

    attributes: dict[str, str | Graph] = {}
    for one in node.attribute:
        if one.type == onnx.AttributeProto.GRAPH:
            attributes[one.name] = _normalize_graph(one.g)
        elif one.type == onnx.AttributeProto.TENSOR:
            attributes[one.name] = _digest_tensor(one.t)
        else:
            attributes[one.name] = _digest_bytes(one)
    return Node(f"{node.domain or 'ai.onnx'}.{node.op_type}", attributes, tuple(node.input), tuple(node.output))


def _digest_tensor(tensor: Any) -> str:
    """Returns a digest of a tensor's numbers: a file may store them raw or one by one."""
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    content = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
    head = f"{tensor.data_type}:{list(tensor.dims)}:".encode()
    return hashlib.sha256(head + content).hexdigest()


def _digest_bytes(message: Any) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


READERS = {"out.onnx": read_onnx, "out.bie": read_onnx, "out.nef": read_host_nef}
NAMED_AT_MOST = 8


@dataclass(frozen=True)
class Likeness:
    """The result of a comparison."""

    is_equal: bool
    """True if both compute the same, regardless of the order and the inner names in their files."""
    differences: tuple[str, ...] = ()
    """The differences, in words."""


def compare_files(name: str, before: Path, after: Path) -> Likeness:
    """Compares two files as networks.

    Args:
        name: out.onnx, out.bie or out.nef of the host toolchain.
    """
    read = READERS[name]
    try:
        first, second = read(before), read(after)
        outputs = output_digests(first.graph), output_digests(second.graph)
    except (NotComparable, ModelmillError) as error:
        return Likeness(is_equal=False, differences=(f"the files cannot be compared: {error}",))
    differences = [*_of_facts(first.facts, second.facts)]
    if outputs[0] != outputs[1]:
        differences += _of_graphs(first, second) or ["the nodes are joined otherwise"]
    return Likeness(not differences, tuple(differences))


def _of_facts(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [f"{name} differs" for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]


def _of_graphs(first: Network, second: Network) -> list[str]:
    differences = []
    for what, before, after in (
        ("operator", _count_operators(first.graph), _count_operators(second.graph)),
        ("output", Counter(first.graph.outputs), Counter(second.graph.outputs)),
    ):
        counts = [
            f"{name} ({before[name]} → {after[name]})" for name in sorted(before | after) if before[name] != after[name]
        ]
        if counts:
            differences.append(f"{what}s differ in number: {names_text(counts, NAMED_AT_MOST)}")
    names = _find_changed_constants(first.graph, second.graph)
    if names:
        differences.append(f"{len(names)} constants have other values: {names_text(names, NAMED_AT_MOST)}")
    return differences


def _count_operators(graph: Graph) -> Counter[str]:
    return Counter(node.operator for node in graph.nodes)


def _find_changed_constants(first: Graph, second: Graph) -> list[str]:
    """Compares constants by content: a constant that was only renamed has not changed."""
    left = Counter(second.constants.values())
    names = []
    for name, digest in sorted(first.constants.items()):
        if left[digest]:
            left[digest] -= 1
        else:
            names.append(name)
    return names
