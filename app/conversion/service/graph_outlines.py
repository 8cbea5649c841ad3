"""The graphs of a job as outlines, and what a step changed: read once in the sandbox, stored beside the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.conversion import object_keys
from app.conversion.intake.entry_points import OUTLINE_GRAPHS, Outline, OutlineNode, OutlinesRequest
from app.conversion.model import Artifact, JobRecord, Stage
from app.conversion.service import Conversion
from app.conversion.service.graphs import graph_files
from app.conversion.toolchains.base import OUTPUTS
from app.kit.objects import ObjectMissing
from app.kit.objects.content import put_json, read_json

FORM = 1
"""Version of the stored data; increment it when its content changes."""
MEMORY_BYTES = 2 << 30
TIME_S = 30.0
"""A reader is waiting for the page."""


class StoredOutline(Outline):
    form: int
    """See FORM."""


@dataclass(frozen=True)
class GraphNode:
    name: str
    op: str
    outputs: tuple[str, ...]
    sources: tuple[int, ...]
    """Indexes of the nodes it reads from."""
    bits: str
    """float, int16 or int8."""

    @property
    def key(self) -> str:
        """Its name, or its first output, because many nodes have no name."""
        return self.name or (self.outputs[0] if self.outputs else "")


@dataclass(frozen=True)
class GraphOutline:
    name: str
    """Of the artifact."""
    nodes: tuple[GraphNode, ...]
    total: int
    """More than the number of nodes if the graph is too large to be drawn."""

    @property
    def is_too_large(self) -> bool:
        return self.total > len(self.nodes)


@dataclass(frozen=True)
class GraphDifference:
    """The changes of a step, by index of the node in the graph before or after."""

    removed: frozenset[int]
    merged: Mapping[int, str]
    """Nodes merged into another, with the name of the merge."""
    added: frozenset[int]
    requantized: frozenset[int]
    """Nodes with another bit width than before."""


def graph_outlines(conversion: Conversion, record: JobRecord) -> list[GraphOutline]:
    """Of model.onnx, out.onnx and out.bie, as far as there are such; a NEF has the nodes of its BIE.

    Args:
        record: Already checked to be the user's.

    Raises:
        ModelmillError: The files cannot be read, or not now.
    """
    required = {file.name: file.artifact for file in graph_files(record) if file.name != OUTPUTS[Stage.NEF]}
    stored = {name: _load_stored(conversion, record, artifact) for name, artifact in required.items()}
    missing = {name: artifact for name, artifact in required.items() if stored[name] is None}
    if missing:
        stored |= _make(conversion, record, missing)
    return [_read_outline(name, outline) for name, outline in stored.items() if outline is not None]


def difference(before: GraphOutline, after: GraphOutline) -> GraphDifference:
    """Nodes are identified by their name, or by the tensor they produce."""
    places = {node.name: index for index, node in enumerate(after.nodes) if node.name}
    makers = {output: index for index, node in enumerate(after.nodes) for output in node.outputs}
    pairs: dict[int, int] = {}
    for index, node in enumerate(before.nodes):
        place = places.get(node.name)
        if place is not None and after.nodes[place].op == node.op:
            pairs[index] = place
    taken = set(pairs.values())
    for index, node in enumerate(before.nodes):
        place = makers.get(node.outputs[0]) if node.outputs else None
        if index not in pairs and place is not None and place not in taken and after.nodes[place].op == node.op:
            pairs[index] = place
            taken.add(place)
    gone = [index for index in range(len(before.nodes)) if index not in pairs]
    merged = {
        index: after.nodes[makers[output]].key
        for index in gone
        if (output := next((one for one in before.nodes[index].outputs if one in makers), None)) is not None
    }
    return GraphDifference(
        removed=frozenset(gone) - merged.keys(),
        merged=merged,
        added=frozenset(range(len(after.nodes))) - set(pairs.values()),
        requantized=frozenset(
            place for index, place in pairs.items() if before.nodes[index].bits != after.nodes[place].bits
        ),
    )


def _build_key(record: JobRecord, artifact: Artifact) -> str:
    return object_keys.extra_file(record.job_id, f"outlines/{artifact.sha256[:16]}.json")


def _load_stored(conversion: Conversion, record: JobRecord, artifact: Artifact) -> Outline | None:
    try:
        stored: StoredOutline = read_json(conversion.jobs.objects, _build_key(record, artifact))
    except ObjectMissing:
        return None
    return stored if stored.get("form") == FORM else None


def _make(conversion: Conversion, record: JobRecord, required: Mapping[str, Artifact]) -> dict[str, Outline]:
    objects = conversion.jobs.objects
    with conversion.uploads.intake.folder("outline-") as folder:
        for name, artifact in required.items():
            objects.get_file(artifact.key, folder / name)
        request: OutlinesRequest = {"graphs": {name: str(folder / name) for name in required}}
        made = conversion.uploads.intake.run(OUTLINE_GRAPHS, request, folder, memory_bytes=MEMORY_BYTES, time_s=TIME_S)
    for name, artifact in required.items():
        put_json(objects, _build_key(record, artifact), {"form": FORM, **made[name]})
    return made


def _read_outline(name: str, outline: Outline) -> GraphOutline:
    return GraphOutline(name, tuple(_read_node(row) for row in outline["nodes"]), outline["total"])


def _read_node(row: OutlineNode) -> GraphNode:
    return GraphNode(row["name"], row["op"], tuple(row["outputs"]), tuple(row["sources"]), row["bits"])
