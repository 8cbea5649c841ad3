"""Draws a job's graphs: nodes are colored by what was measured of them and link to their row in the table of layers;
graphs side by side show what each step changed. Pure, except for reading the outlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from starlette.requests import Request

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord
from app.conversion.service.graph_layout import NODE_HEIGHT, NODE_WIDTH, Layout, layout
from app.conversion.service.graph_outlines import GraphDifference, GraphOutline, difference, graph_outlines
from app.conversion.service.graphs import graph_files
from app.conversion.service.quality import Quality
from app.conversion.service.quality.views import EXACT_DB, LayerQuality
from app.kit.errors import ModelmillError
from app.kit.web.templates import TemplateContext

GraphFileName = Literal["", "model.onnx", "out.onnx", "out.bie"]
GraphColour = Literal["snr", "alone", "bits", "time"]
STEPS_DB = (10.0, 20.0, 30.0, 40.0)
"""Limits between the five colors of SNR."""
STEPS_TIME = (0.2, 0.4, 0.6, 0.8)
"""Limits between the five colors of time, as shares of the slowest node's time."""
NAME_LETTERS = 19
"""Longest name that fits in a node."""


@dataclass(frozen=True)
class DrawnNode:
    """A node of the drawing."""

    x: float
    y: float
    op: str
    name: str
    """Shortened to fit in the node."""
    tip: str
    kind: str
    """CSS classes for its color and mark."""
    layer: int | None
    """Index of its row in the table of layers."""
    value: str
    """The number that its color represents."""


@dataclass(frozen=True)
class DrawnGraph:
    """One graph of the drawing, laid out."""

    name: str
    layout: Layout
    nodes: tuple[DrawnNode, ...]
    difference: GraphDifference | None
    """From the graph before it; None for the first."""
    is_too_large: bool
    total: int


def graph_context(
    request: Request, record: JobRecord, quality: Quality, *, file: GraphFileName, colour: GraphColour, beside: bool
) -> TemplateContext:
    """Returns what the template of the graphs needs; a graph that cannot be read is reported in it.

    Args:
        quality: of the job.
        file: the graph to draw; the last one if this one does not exist.
        colour: what the colors of the nodes show.
        beside: draw all graphs, side by side.
    """
    context: TemplateContext = {
        "graphs": graph_files(record),
        "colour": colour,
        "beside": beside,
        "drawn": [],
        "problem": "",
    }
    context |= {"node_width": NODE_WIDTH, "node_height": NODE_HEIGHT, "colours": colours(quality)}
    try:
        outlines = graph_outlines(conversion_of(request), record)
    except ModelmillError as error:
        return {**context, "problem": error.message, "files": [], "file": ""}
    names = [outline.name for outline in outlines]
    chosen = file if file in names else (names[-1] if names else "")
    shown = outlines if beside else [outline for outline in outlines if outline.name == chosen]
    return {**context, "files": names, "file": chosen, "drawn": draw(shown, quality, colour)}


def colours(quality: Quality) -> list[GraphColour]:
    """Returns what the colors of the nodes can show for this job."""
    given: tuple[tuple[GraphColour, Any], ...] = (
        ("snr", quality.layers),
        ("alone", quality.sensitivity),
        ("bits", True),
        ("time", node_times(quality)),
    )
    return [name for name, has in given if has]


def draw(outlines: Sequence[GraphOutline], quality: Quality, colour: GraphColour) -> list[DrawnGraph]:
    """Draws graphs in the order of the conversion, and compares each with the one before it."""
    layers = {layer.name: layer for layer in quality.layers}
    times = node_times(quality)
    pairs = zip([None, *outlines], outlines, strict=False)
    steps = [None if before is None else difference(before, after) for before, after in pairs]
    following = [*steps[1:], None]
    return [
        _draw(outline, _NodeRenderer(quality, layers, times, colour, step, after), step)
        for outline, step, after in zip(outlines, steps, following, strict=True)
    ]


def node_times(quality: Quality) -> dict[str, float]:
    """Returns milliseconds by node, if the toolchain measured them."""
    slowest = quality.chip.slowest if quality.chip else ()
    return {node.origin or node.node: node.runtime_ms for node in slowest if node.runtime_ms is not None}


def _draw(outline: GraphOutline, renderer: _NodeRenderer, step: GraphDifference | None) -> DrawnGraph:
    placed = layout([node.sources for node in outline.nodes])
    nodes = tuple(
        renderer.node(index, node.op, node.key, node.outputs, node.bits, place.x, place.y)
        for index, (node, place) in enumerate(zip(outline.nodes, placed.nodes, strict=True))
    )
    return DrawnGraph(outline.name, placed, nodes, step, outline.is_too_large, outline.total)


@dataclass(frozen=True)
class _NodeRenderer:
    """Determines a node's color and mark."""

    quality: Quality
    layers: Mapping[str, LayerQuality]
    times: Mapping[str, float]
    colour: GraphColour
    step: GraphDifference | None
    """The step that led to this graph."""
    after: GraphDifference | None
    """The step that leads to the next graph."""

    def node(self, index: int, op: str, key: str, outputs: tuple[str, ...], bits: str, x: float, y: float) -> DrawnNode:
        layer = next((self.layers[name] for name in (key, *outputs) if name in self.layers), None)
        value, kind = self._get_value(layer, key, bits)
        mark, remark = self._mark(index)
        tip = " · ".join(part for part in (f"{op} {key}", bits, value, remark) if part)
        short = key if len(key) <= NAME_LETTERS else f"…{key[1 - NAME_LETTERS :]}"
        classes = f"{kind} {mark}".strip()
        return DrawnNode(x, y, op, short, tip, classes, layer.position if layer else None, value)

    def _get_value(self, layer: LayerQuality | None, key: str, bits: str) -> tuple[str, str]:
        """Returns the number and the CSS class of its color."""
        if self.colour == "bits":
            return bits, f"bits-{bits}"
        if self.colour == "time":
            spent = self.times.get(key)
            slowest = max(self.times.values(), default=0.0)
            return (
                ("", "unknown")
                if spent is None
                else (f"{spent:.3g} ms", f"heat-{_find_step(spent / slowest, STEPS_TIME)}")
            )
        if self.colour == "alone":
            snr_db = self.quality.sensitivity.get(layer.name if layer else key)
        else:
            snr_db = layer.snr_db.shown if layer else None
        if snr_db is None:
            return "", "unknown"
        shown = f"≥ {EXACT_DB:g} dB" if snr_db >= EXACT_DB else f"{snr_db:.1f} dB"
        return shown, f"heat-{len(STEPS_DB) - _find_step(snr_db, STEPS_DB)}"

    def _mark(self, index: int) -> tuple[str, str]:
        if self.after and index in self.after.merged:
            return "is-merged", f"→ {self.after.merged[index]}"
        if self.after and index in self.after.removed:
            return "is-removed", ""
        if self.step and index in self.step.added:
            return "is-added", ""
        return "", ""


def _find_step(value: float, steps: Sequence[float]) -> int:
    """Returns how many of the steps the value reaches."""
    return sum(value >= step for step in steps)
