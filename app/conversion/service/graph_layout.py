"""A directed graph on a plane: layers from top to bottom, few crossings, edges around nodes. Pure.

The usual steps of Sugiyama's method: ranks by the longest path, places that stand in for nodes on long edges, order
within a rank by the mean of the neighbors, then coordinates. The graphs of networks are long and narrow, so a few
sweeps do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

NODE_WIDTH, NODE_HEIGHT = 148, 30
GAP_X, GAP_Y = 16, 26
BEND_WIDTH = 10
"""Of the place that an edge takes up in a rank which it only passes."""
MARGIN = 8
SWEEPS = 6


@dataclass(frozen=True)
class PlacedNode:
    """The upper left corner, in pixels."""

    x: float
    y: float


@dataclass(frozen=True)
class PlacedEdge:
    source: int
    target: int
    path: str
    """For an SVG path."""


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]


def layout(sources: Sequence[Sequence[int]]) -> Layout:
    """Place a graph without cycles.

    Args:
        sources: For each node the indexes of those that lead to it; of nodes before it in the sequence only, as ONNX
            orders its nodes. Others are omitted.
    """
    edges = [(source, target) for target, before in enumerate(sources) for source in before if source < target]
    ranks = _rank_nodes(len(sources), edges)
    drawing = _Drawing(ranks, edges)
    for sweep in range(SWEEPS):
        drawing.order(downwards=sweep % 2 == 0)
    drawing.spread()
    return drawing.layout(edges)


def _rank_nodes(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    ranks = [0] * count
    for source, target in edges:  # sorted by target, and sources come before: their ranks are final
        ranks[target] = max(ranks[target], ranks[source] + 1)
    return ranks


class _Drawing:
    """Nodes and bends in ranks. A place is a number: that of a node, or beyond them that of a bend."""

    def __init__(self, ranks: list[int], edges: Sequence[tuple[int, int]]) -> None:
        self.count = len(ranks)
        self.rank = list(ranks)
        self.above: list[list[int]] = [[] for _ in ranks]
        self.below: list[list[int]] = [[] for _ in ranks]
        self.bends = [self._find_bends(source, target) for source, target in edges]
        self.rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for place, rank in enumerate(self.rank):
            self.rows[rank].append(place)
        self.centre = [0.0] * len(self.rank)
        for row in self.rows:
            self._pack(row)

    def _find_bends(self, source: int, target: int) -> list[int]:
        """The places on the way, one in each rank between both ends."""
        way = list(range(len(self.rank), len(self.rank) + self.rank[target] - self.rank[source] - 1))
        self.rank += range(self.rank[source] + 1, self.rank[target])
        self.above += ([] for _ in way)
        self.below += ([] for _ in way)
        chain = [source, *way, target]
        for upper, lower in pairwise(chain):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return way

    def width(self, place: int) -> float:
        return NODE_WIDTH if place < self.count else BEND_WIDTH

    def order(self, *, downwards: bool) -> None:
        """Sort each rank by where its neighbors in the rank before are."""
        neighbours = self.above if downwards else self.below
        for row in self.rows if downwards else reversed(self.rows):
            row.sort(key=lambda place: self._compute_mean(neighbours[place], self.centre[place]))
            self._pack(row)

    def spread(self) -> None:
        """Move each place towards its neighbors, as far as the others of its rank leave room."""
        for sweep in range(2 * SWEEPS):
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                neighbours = self.above if sweep % 2 == 0 else self.below
                goal = [self._compute_mean(neighbours[place], self.centre[place]) for place in row]
                self._settle(row, goal)

    def _settle(self, row: list[int], goal: list[float]) -> None:
        """The mean of the tightest fit from the left and that from the right: both keep the gaps."""
        left, right = list(goal), list(goal)
        for at in range(1, len(row)):
            left[at] = max(goal[at], left[at - 1] + self._measure_distance(row[at - 1], row[at]))
        for at in range(len(row) - 2, -1, -1):
            right[at] = min(goal[at], right[at + 1] - self._measure_distance(row[at], row[at + 1]))
        for place, first, second in zip(row, left, right, strict=True):
            self.centre[place] = (first + second) / 2

    def _pack(self, row: list[int]) -> None:
        """Side by side, around zero."""
        at, centres = 0.0, []
        for index, place in enumerate(row):
            at += self._measure_distance(row[index - 1], place) if index else 0.0
            centres.append(at)
        for place, centre in zip(row, centres, strict=True):
            self.centre[place] = centre - at / 2

    def _measure_distance(self, first: int, second: int) -> float:
        return (self.width(first) + self.width(second)) / 2 + GAP_X

    def _compute_mean(self, neighbours: Sequence[int], otherwise: float) -> float:
        return fmean(self.centre[place] for place in neighbours) if neighbours else otherwise

    def layout(self, edges: Sequence[tuple[int, int]]) -> Layout:
        low = min((centre - self.width(place) / 2 for place, centre in enumerate(self.centre)), default=0.0)
        high = max((centre + self.width(place) / 2 for place, centre in enumerate(self.centre)), default=0.0)
        self.centre = [centre - low + MARGIN for centre in self.centre]
        step = NODE_HEIGHT + GAP_Y
        nodes = tuple(
            PlacedNode(round(self.centre[node] - NODE_WIDTH / 2, 1), MARGIN + self.rank[node] * step)
            for node in range(self.count)
        )
        lines = tuple(
            PlacedEdge(source, target, self._path([source, *way, target]))
            for (source, target), way in zip(edges, self.bends, strict=True)
        )
        height = len(self.rows) * step - GAP_Y + 2 * MARGIN if self.rows else 2 * MARGIN
        return Layout(round(high - low + 2 * MARGIN, 1), height, nodes, lines)

    def _path(self, chain: list[int]) -> str:
        """Straight down through the ranks it passes, curved between two ranks."""
        step = NODE_HEIGHT + GAP_Y
        parts: list[str] = []
        for upper, lower in pairwise(chain):
            x1, x2 = round(self.centre[upper], 1), round(self.centre[lower], 1)
            y1 = MARGIN + self.rank[upper] * step + NODE_HEIGHT
            y2 = y1 + GAP_Y
            parts.append(f"{'M' if not parts else 'L'}{x1} {y1}C{x1} {y1 + GAP_Y / 2} {x2} {y1 + GAP_Y / 2} {x2} {y2}")
        return "".join(parts)
