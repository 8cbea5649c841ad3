"""Where the parts of a DAG stand in its picture: columns by what they wait for, a lane for the edge, one for the cloud.
Pure; the template draws it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from app.video.model.dag import Dag
from app.video.model.kinds import RENDER
from app.video.pages.view_models import CLOUD, EDGE, dag_edges

BOX_WIDTH, BOX_HEIGHT = 188, 46
GAP_X, GAP_Y, PAD, HEAD = 64, 14, 16, 24
WIDTH = 1160
"""What a short DAG is spread over, so that it fills its page."""
NAME_MAX = 22


@dataclass(frozen=True)
class Box:
    name: str
    shown: str
    note: str
    """Below its name."""
    lane: str
    kind: str
    """generator, stage or render."""
    x: int
    y: int


@dataclass(frozen=True)
class Lane:
    name: str
    y: int
    height: int


@dataclass(frozen=True)
class Arrow:
    path: str
    """Of SVG."""
    is_far: bool
    """Does it lead from one lane into another?"""
    label: str
    """How long the way takes; empty if that is not known."""
    x: int
    y: int
    """Where the label stands."""


@dataclass(frozen=True)
class Drawing:
    width: int
    height: int
    boxes: tuple[Box, ...]
    lanes: tuple[Lane, ...]
    arrows: tuple[Arrow, ...]
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT


def draw(
    dag: Dag, lanes: Mapping[str, str], notes: Mapping[str, str], ways: Mapping[str, str] | None = None
) -> Drawing:
    """
    Args:
        lanes: Stage → edge or cloud; one that is not there, as the generator and Render, stands at the edge.
        notes: What stands below the names.
        ways: By stage, how long the way to it takes.
    """
    edges = dag_edges(dag)
    columns = _place_columns(dag, edges)
    places: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name, column in columns.items():
        places[lanes.get(name, EDGE), column].append(name)
    rows = {EDGE: 1, CLOUD: 1}
    for (lane, _), names in places.items():
        rows[lane] = max(rows[lane], len(names))
    heights = {lane: HEAD + rows[lane] * (BOX_HEIGHT + GAP_Y) + PAD for lane in rows}
    tops = {EDGE: 0, CLOUD: heights[EDGE]}
    last = max(columns.values())
    gap = max(GAP_X, (WIDTH - 2 * PAD - (last + 1) * BOX_WIDTH) // max(last, 1))
    boxes = {}
    for (lane, column), names in places.items():
        for row, name in enumerate(names):
            y = tops[lane] + HEAD + PAD // 2 + row * (BOX_HEIGHT + GAP_Y)
            boxes[name] = _make_box(dag, name, notes.get(name, ""), lane, PAD + column * (BOX_WIDTH + gap), y)
    width = PAD + (last + 1) * (BOX_WIDTH + gap) - gap + PAD
    first = {after: before for before, after in reversed(edges)}
    arrows = tuple(
        _draw_arrow(boxes[a], boxes[b], gap, (ways or {}).get(b, "") if first[b] == a else "") for a, b in edges
    )
    drawn = tuple(boxes[name] for name in columns)
    return Drawing(
        width, sum(heights.values()), drawn, tuple(Lane(lane, tops[lane], heights[lane]) for lane in tops), arrows
    )


def _place_columns(dag: Dag, edges: list[tuple[str, str]]) -> dict[str, int]:
    columns = {dag.generator: 0}
    for name in (*dag.stages, RENDER):
        columns[name] = 1 + max((columns.get(before, 0) for before, after in edges if after == name), default=0)
    columns[RENDER] = max(columns.values()) if columns[RENDER] == max(columns.values()) else max(columns.values()) + 1
    return columns


def _make_box(dag: Dag, name: str, note: str, lane: str, x: int, y: int) -> Box:
    kind = "generator" if name == dag.generator else "render" if name == RENDER else "stage"
    return Box(name, _shorten(name), _shorten(note), lane, kind, x, y)


def _shorten(text: str) -> str:
    return text if len(text) <= NAME_MAX else f"{text[: NAME_MAX - 1]}…"


def _draw_arrow(start: Box, stop: Box, gap: int, label: str) -> Arrow:
    """From the right side of one to the left of the other; its label before the latter, where no line is."""
    x1, y1 = start.x + BOX_WIDTH, start.y + BOX_HEIGHT // 2
    x2, y2 = stop.x - 6, stop.y + BOX_HEIGHT // 2
    half = (x2 - x1) // 2 if x2 - x1 <= gap else gap // 2
    path = f"M{x1} {y1} C{x1 + half} {y1} {x1 + half} {y2} {x1 + 2 * half} {y2} L{x2} {y2}"
    return Arrow(path, start.lane != stop.lane, label, stop.x - 14, y2 + (18 if y1 < y2 else -8))
