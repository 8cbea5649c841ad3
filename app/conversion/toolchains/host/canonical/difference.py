"""Two files of the same name, compared as networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.conversion.toolchains.host.canonical.network import Graph, Network, NotComparable, output_digests
from app.conversion.toolchains.host.canonical.onnx_form import read_onnx
from app.conversion.toolchains.host.canonical.ort_form import read_host_nef
from app.kit.errors import ModelmillError

READERS = {"out.onnx": read_onnx, "out.bie": read_onnx, "out.nef": read_host_nef}
NAMED_AT_MOST = 8


@dataclass(frozen=True)
class Likeness:
    is_equal: bool
    """Do both compute the same, whatever order and inner names their files have?"""
    differences: tuple[str, ...] = ()
    """What differs, in words."""


def compare_files(name: str, before: Path, after: Path) -> Likeness:
    """Args:
    name: out.onnx, out.bie or out.nef, of the host toolchain.
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
        ("operator", _operators(first.graph), _operators(second.graph)),
        ("output", Counter(first.graph.outputs), Counter(second.graph.outputs)),
    ):
        counts = [
            f"{name} ({before[name]} → {after[name]})" for name in sorted(before | after) if before[name] != after[name]
        ]
        if counts:
            differences.append(f"{what}s differ in number: {_some(counts)}")
    names = _changed_constants(first.graph, second.graph)
    if names:
        differences.append(f"{len(names)} constants have other values: {_some(names)}")
    return differences


def _operators(graph: Graph) -> Counter[str]:
    return Counter(node.operator for node in graph.nodes)


def _changed_constants(first: Graph, second: Graph) -> list[str]:
    """By content: one that was only renamed has not changed."""
    left = Counter(second.constants.values())
    names = []
    for name, digest in sorted(first.constants.items()):
        if left[digest]:
            left[digest] -= 1
        else:
            names.append(name)
    return names


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED_AT_MOST]) + (", …" if len(names) > NAMED_AT_MOST else "")
