"""What a search tried, as two plots: SNR, or the loss of the task, against size and against latency. Pure; the texts
are in the templates.

Used for the candidates of one conversion and for conversions side by side. The template draws the plot; colors and
themes are in the stylesheet. Each point links to its row in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.conversion.service.quality.candidates import Candidate, Measure, Search, measures_of, pareto, quality_by
from app.conversion.service.quality.goal import StatedGoal
from app.kit.web.charts import Scale
from app.kit.web.filters import file_size
from app.kit.web.line_plot import Tick

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 44, 16, 14, 42
MARGIN = 0.08
"""Margin beyond the lowest and highest value of an axis, as a share of their distance."""
LEAST_MARGIN = 0.02
"""Least margin, as a share of the highest value, so that nearly equal values are drawn near each other."""
CAP_DB = 60.0
"""Above it a higher SNR makes no visible difference; higher values are drawn here, with their number as text."""
Axis = Literal["size", "latency"]


@dataclass(frozen=True)
class PlotPoint:
    """A candidate in a plot."""

    id: int
    name: str
    x: float
    y: float
    figures: str
    """What it came to."""
    kind: str
    """taken, front or other."""
    drop_percent: float | None
    """Loss of the task."""
    verdict_code: str
    """Why it was chosen, or not."""


@dataclass(frozen=True)
class TradePlot:
    """A plot; coordinates are pixels of a box of WIDTH × HEIGHT."""

    axis: Axis
    """size in KiB, latency in ms."""
    measure: Measure
    """SNR in dB, or the loss of the task in percent, which is lower at the top."""
    points: tuple[PlotPoint, ...]
    front: str
    """Path of the Pareto front; empty for fewer than two points."""
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    rule_y: float | None
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class ParetoView:
    """The plots and the table of a search."""

    plots: tuple[TradePlot, ...]
    """One for each axis for which at least two candidates have values."""
    rows: tuple[Candidate, ...]
    """Rows of the table: the chosen candidate first, then by SNR."""
    front: frozenset[int]
    """Ids of the candidates on the Pareto front."""
    measure: Measure = "snr"
    """What the quality is compared by."""
    measures: tuple[Measure, ...] = ()
    """What it could be compared by."""
    elapsed_s: float | None = None
    ended_by: str = ""


def plots(search: Search, rule_db: float, goal: StatedGoal | None = None, measure: Measure | None = None) -> ParetoView:
    """Returns the view of one conversion's search.

    Args:
        rule_db: SNR that an output has to reach, in dB.
        goal: of the conversion; None without one.
        measure: what to compare quality by; None, or not measured: as the goal does.
    """
    kind = goal.kind if goal else None
    measures = measures_of(search.candidates, kind)
    used: Measure = measure if measure in measures else next(iter(measures), "snr")
    rule = rule_db if used == "snr" else goal.threshold if goal and kind == "drop" else None
    view = view_of(search.candidates, rule, measure=used)
    return replace(view, measures=measures, elapsed_s=search.elapsed_s, ended_by=search.ended_by)


def view_of(
    candidates: Sequence[Candidate],
    rule: float | None,
    *,
    front: frozenset[int] | None = None,
    measure: Measure = "snr",
) -> ParetoView:
    """Returns the plots and the table of candidates.

    Args:
        rule: SNR in dB that an output has to reach, or what the task may lose in percent, drawn as a line.
        front: ids on the Pareto front if the candidates have several models, so that no line connects them.
        measure: what the quality is compared by.
    """
    has_line = front is None
    front = frozenset(one.id for one in pareto(candidates, measure)) if front is None else front
    rows = sorted(candidates, key=lambda one: _place(one, measure))
    axes: tuple[tuple[Axis, Callable[[Candidate], float | None]], ...] = (
        ("size", lambda one: one.size_bytes and one.size_bytes / 1024),
        ("latency", lambda one: one.latency_ms),
    )
    drawn = (_plot(axis, value, candidates, front, rule, measure, has_line=has_line) for axis, value in axes)
    return ParetoView(tuple(plot for plot in drawn if plot is not None), tuple(rows), front, measure)


def _place(candidate: Candidate, measure: Measure) -> tuple[bool, bool, float, int]:
    """Sort key of the table."""
    quality = quality_by(candidate, measure)
    return not candidate.is_taken, quality is None, -(quality or 0.0), candidate.id


def _plot(
    axis: Axis,
    value: Callable[[Candidate], float | None],
    candidates: Sequence[Candidate],
    front: frozenset[int],
    rule: float | None,
    measure: Measure,
    *,
    has_line: bool,
) -> TradePlot | None:
    pairs = ((one, value(one), one.drop_percent if measure == "task" else one.snr_db) for one in candidates)
    known = [(one, float(x), y if measure == "task" else min(y, CAP_DB)) for one, x, y in pairs if x and y is not None]
    if len(known) < 2:
        return None
    ends = (TOP, HEIGHT - BOTTOM) if measure == "task" else (HEIGHT - BOTTOM, TOP)
    x_scale = _scale([x for _, x, _ in known], LEFT, WIDTH - RIGHT)
    y_scale = _scale([*(y for _, _, y in known), *([] if rule is None else [rule])], *ends)
    points = tuple(
        PlotPoint(
            one.id,
            one.name,
            x_scale(x),
            y_scale(y),
            _format_figures(one),
            _choose_kind(one, front),
            one.drop_percent,
            one.verdict_code,
        )
        for one, x, y in known
    )
    lowest = min(y for _, _, y in known)
    return TradePlot(
        axis,
        measure,
        points,
        _draw_front(points) if has_line else "",
        tuple(Tick(x_scale(tick), f"{tick:g}") for tick in x_scale.ticks),
        tuple(Tick(y_scale(tick), f"{tick:g}") for tick in y_scale.ticks if tick >= min(lowest, 0.0)),
        None if rule is None else y_scale(rule),
    )


def _scale(values: Sequence[float], start: float, stop: float) -> Scale:
    low, high = min(values), max(values)
    margin = max(MARGIN * (high - low), LEAST_MARGIN * abs(high)) or 1.0
    return Scale(low - margin, high + margin, start, stop)


def _draw_front(points: Sequence[PlotPoint]) -> str:
    """Returns a staircase from left to right, since nothing better is known between two points."""
    best = sorted(points, key=lambda point: (point.x, point.y))
    kept: list[PlotPoint] = []
    for point in best:
        if not kept or point.y < kept[-1].y:
            kept.append(point)
    if len(kept) < 2:
        return ""
    return f"M{kept[0].x} {kept[0].y}" + "".join(f"H{point.x}V{point.y}" for point in kept[1:])


def _choose_kind(candidate: Candidate, front: frozenset[int]) -> str:
    if candidate.is_taken:
        return "taken"
    return "front" if candidate.id in front else "other"


def _format_figures(candidate: Candidate) -> str:
    parts = [] if candidate.snr_db is None else [f"{candidate.snr_db:.1f} dB"]
    parts += [] if candidate.size_bytes is None else [file_size(candidate.size_bytes)]
    parts += [] if candidate.latency_ms is None else [f"{candidate.latency_ms:.3g} ms"]
    return " · ".join(parts)
