"""Model families that take pictures: recognized by their graph, with their usual preprocessing.

The table is data, model_families.toml. It gives the prior; the first layer of a model adds evidence
(app.conversion.intake.preprocess_recognition).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from app.inference.preprocess_options import Preprocess, read_preprocess
from app.inference.preprocessing import AxisOrder, Shape

TABLE = Path(__file__).with_suffix(".toml")
Task = Literal["boxes", "top1", "mask", "keypoints", "cosine", "text", "values"]
Axis = int | str | Sequence[int]
KNOWN_SHARE = 0.5
"""Least share of the sides in a family's pattern that have to be known to identify it by the shapes of its outputs."""
NORMS = frozenset({"LayerNormalization", "ReduceMean", "SimplifiedLayerNormalization"})


@dataclass(frozen=True)
class GraphSignature:
    """Features of a graph that are visible without running it."""

    input: Shape
    """Shape of the only input that takes pictures, including the batch; None for open axes."""
    order: AxisOrder
    outputs: tuple[Shape, ...]
    operators: frozenset[str] = frozenset()
    first: str = ""
    """The operator that reads the input."""
    names: tuple[str, ...] = ()
    """Names of inputs, outputs and weights."""
    producer: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def channels(self) -> int | None:
        return self.input[self.order.index("C")]

    @property
    def height(self) -> int | None:
        return self.input[self.order.index("H")]

    @property
    def width(self) -> int | None:
        return self.input[self.order.index("W")]


@dataclass(frozen=True)
class FamilyRule:
    """One entry of the table."""

    name: str
    title: str
    task: Task
    source: str
    prepared: Mapping[str, float]
    """Probability by preset; they sum to at most 1."""
    resize: Literal["stretch", "letterbox"] = "stretch"
    pad_value: int = 114
    outputs: tuple[tuple[Axis, ...], ...] = ()
    more: bool = False
    operators: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    norm: bool = False
    """True if the graph has to have an operator that normalizes layers, as transformers do."""
    first: frozenset[str] = frozenset()
    names: str = ""
    producer: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    sides: Mapping[str, Any] = field(default_factory=dict)
    heights: tuple[int, ...] = ()

    def fits(self, graph: GraphSignature) -> bool:
        """Returns whether the graph looks like one of this family."""
        return (
            self.operators <= graph.operators
            and not self.without & graph.operators
            and (not self.norm or bool(NORMS & graph.operators))
            and (not self.first or graph.first in self.first)
            and (not self.names or any(re.search(self.names, name) for name in graph.names))
            and re.search(self.producer, graph.producer) is not None
            and all(re.search(pattern, graph.metadata.get(key, "")) for key, pattern in self.metadata.items())
            and self._sides_fit(graph)
            and self._outputs_fit(graph)
        )

    def _sides_fit(self, graph: GraphSignature) -> bool:
        height, width = graph.height, graph.width
        if self.heights and height not in self.heights:
            return False
        known = [side for side in (height, width) if side is not None]
        if self.sides.get("square") and len(set(known)) > 1:
            return False
        least, most = self.sides.get("least", 1), self.sides.get("most", 1 << 20)
        return all(least <= side <= most for side in known) and (bool(known) or not self.sides)

    def _outputs_fit(self, graph: GraphSignature) -> bool:
        if not self.outputs:
            return True
        if len(graph.outputs) < len(self.outputs) or (len(graph.outputs) > len(self.outputs) and not self.more):
            return False
        if not self._are_outputs_known(graph):
            return False
        return _assignable(
            [[_shape_fits(pattern, shape, graph) for shape in graph.outputs] for pattern in self.outputs]
        )

    def _are_outputs_known(self, graph: GraphSignature) -> bool:
        """Returns whether enough sides of the outputs are known: open ones fit everything, and so prove nothing."""
        known_sides = sum(side is not None for shape in graph.outputs for side in shape[1:])
        needed = sum(axis != "any" for pattern in self.outputs for axis in pattern[1:])
        return bool(self.names or self.producer or self.metadata) or known_sides >= KNOWN_SHARE * needed


def _assignable(table: Sequence[Sequence[bool]], taken: frozenset[int] = frozenset()) -> bool:
    """Returns whether each pattern can have a separate output.

    Args:
        table: table[pattern][output].
        taken: outputs that are assigned already.
    """
    if not table:
        return True
    choices = (index for index, fits in enumerate(table[0]) if fits and index not in taken)
    return any(_assignable(table[1:], taken | {index}) for index in choices)


def _shape_fits(pattern: Sequence[Axis], shape: Shape, graph: GraphSignature) -> bool:
    if len(pattern) == len(shape) == 2 and _is_table(shape[0], graph.input[0]) == (pattern[0] == "any"):
        return False
    return len(pattern) == len(shape) and all(
        side is None or _axis_fits(axis, side, graph) for axis, side in zip(pattern, shape, strict=True)
    )


def _is_table(rows: int | None, batch: int | None) -> bool:
    """Returns whether an output of two axes is a table of one picture, in place of a row for each picture."""
    return rows is not None and batch is not None and rows != batch


def _axis_fits(axis: Axis, side: int, graph: GraphSignature) -> bool:
    if isinstance(axis, int):
        return side == axis
    if not isinstance(axis, str):
        return side in axis
    if axis == "any":
        return True
    if axis.startswith(">"):
        return side > int(axis[1:])
    return side == _side_of(axis, graph)  # a side that depends on open ones cannot be a number


def _side_of(axis: str, graph: GraphSignature) -> int | None:
    """Evaluates "height/4" or "2 cells 8 16 32"; None while the input's sides are open."""
    height, width = graph.height, graph.width
    name, _, divisor = axis.partition("/")
    if divisor:
        length = height if name == "height" else width
        return None if length is None else -(-length // int(divisor))
    if height is None or width is None:
        return None
    before, _, after = axis.partition("cells")
    strides = [int(stride) for stride in after.split()]
    boxes = [int(count) for count in before.split()] or [1]
    boxes = boxes * len(strides) if len(boxes) == 1 else boxes
    counts = zip(boxes, strides, strict=True)
    return sum(count * -(-height // stride) * -(-width // stride) for count, stride in counts)


@dataclass(frozen=True)
class FamilyTable:
    """The known families of models, and how each usually has its pictures prepared."""

    presets: Mapping[str, Preprocess]
    usual: Mapping[int, Mapping[str, float]]
    """Probabilities of presets by number of channels, for a model about which nothing is known."""
    families: tuple[FamilyRule, ...]

    def family_of(self, graph: GraphSignature) -> FamilyRule | None:
        """Returns the first family that fits and takes pictures with as many channels."""
        fitting = (family for family in self.families if family.fits(graph))
        return next((family for family in fitting if self._takes(family, graph.channels or 3)), None)

    def _takes(self, family: FamilyRule, channels: int) -> bool:
        """Returns whether one of the family's presets has so many channels."""
        colors = {self.presets[name].color for name in family.prepared}
        return not colors or any((color == "GRAY") == (channels == 1) for color in colors)


@cache
def family_table() -> FamilyTable:
    """Returns the table of the product."""
    data = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    presets = {name: read_preprocess(values) for name, values in data["presets"].items()}
    usual = {int(channels): weights for channels, weights in data["usual"].items()}
    return FamilyTable(presets, usual, tuple(_read_rules(data["family"])))


def _read_rules(entries: Sequence[Mapping[str, Any]]) -> Iterator[FamilyRule]:
    sets = ("operators", "without", "first")
    for entry in entries:
        outputs = tuple(tuple(pattern) for pattern in entry.get("outputs", ()))
        groups = {name: frozenset(entry.get(name, ())) for name in sets}
        heights = tuple(entry.get("heights", ()))
        yield FamilyRule(**{**entry, **groups, "outputs": outputs, "heights": heights})
