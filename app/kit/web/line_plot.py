"""Lines over two axes, as numbers for a template that draws them (templates/kit/_plot.html). Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple, Protocol, TypeVar

from app.kit.clock import from_text
from app.kit.web.charts import Scale

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 42
LEAST_POINTS = 2
LEAST_MIN = 0.5
"""Minimum range of a plot over time, in minutes."""
SHORT_MIN = 2.0
"""Shorter plots are labeled in seconds instead of minutes."""
LONGEST_PAUSE = 5.0
"""Reports that are this many times as far apart as usual have others missing between them."""
NICE = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
Series = list[tuple[float, float | None]]
"""x, and the value at x, if any."""


class Timed(Protocol):
    @property
    def at(self) -> str: ...


P = TypeVar("P", bound=Timed)


class Tick(NamedTuple):
    """A labelled position on an axis."""

    at: float
    """Its position on the axis, in pixels."""
    label: str


class Line(NamedTuple):
    """A curve, as it is drawn."""

    kind: str
    """The kind of the line; the stylesheet colors it."""
    path: str
    """An SVG path."""


class Mark(NamedTuple):
    x: float
    """Its position on the axis, in pixels."""
    at: float
    """The same in the units of the axis."""
    tip: str
    """Shown on hover: the event."""


class Dot(NamedTuple):
    """A single point, at its place in pixels."""

    x: float
    y: float
    kind: str
    tip: str
    """Shown on hover."""


@dataclass(frozen=True)
class Plot:
    """A plot, ready for the template."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    dots: tuple[Dot, ...] = ()
    in_seconds: bool = False
    """For a plot over time: the unit of its x labels."""
    is_cut: bool = False
    """There are higher values; they are drawn at the upper edge."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM
    marks: tuple[Mark, ...] = ()
    series: tuple[tuple[str, Series], ...] = ()
    """The values of the lines, by kind; the factor and the suffix of their labels."""
    high: float | None = None
    times: float = 1.0
    ending: str = ""

    @property
    def data(self) -> str:
        """The values as JSON, for an interactive chart: x ascending, null where a line has no value."""
        columns = [dict(points) for _, points in self.series]
        places = sorted(set[float]().union(*columns))
        unit = 60.0 if self.in_seconds else 1.0
        others = {
            "kinds": [kind for kind, _ in self.series],
            "high": None if self.high is None else self.high * self.times,
            "ending": self.ending,
            "marks": [[round(mark.at * unit, 4), mark.tip] for mark in self.marks],
        }
        x, y = (
            _to_json_numbers([at * unit for at in places], 10),
            [self._format_column(column, places) for column in columns],
        )
        return f'{json.dumps(others)[:-1]},"x":{x},"y":[{",".join(y)}]}}'

    def _format_column(self, column: Mapping[float, float | None], places: Sequence[float]) -> str:
        values = [column.get(at) for at in places]
        return _to_json_numbers([None if value is None else value * self.times for value in values], 6)

    @property
    def kinds(self) -> set[str]:
        return {line.kind for line in self.lines} | {dot.kind for dot in self.dots}


def _to_json_numbers(values: Iterable[float | None], digits: int) -> str:
    """A JSON array of finite numbers; written here because `json` took most of the time of a live page of plots."""
    return f"[{','.join(['null' if value is None else f'{value:.{digits}g}' for value in values])}]"


def axes(x: tuple[float, float], y: tuple[float, float]) -> tuple[Scale, Scale]:
    """Returns the scales of both axes in pixels, for ranges (low, high) of the values."""
    return Scale(*x, LEFT, WIDTH - RIGHT), Scale(*y, HEIGHT - BOTTOM, TOP)


def over_time(points: Sequence[P], read: Callable[[P], float | None]) -> Series:
    """The values of the points by minutes before the last point."""
    if not points:
        return []
    last = from_text(points[-1].at)
    return [((from_text(point.at) - last).total_seconds() / 60, read(point)) for point in points]


def values_of(series: Iterable[Series]) -> list[float]:
    """Returns the values of all series, without those that are missing."""
    return [value for points in series for _, value in points if value is not None]


def time_plot(
    series: Mapping[str, Series],
    *,
    top: float | None = None,
    times: float = 1.0,
    ending: str = "",
    marks: Sequence[tuple[float, str]] = (),
    is_periodic: bool = False,
) -> Plot | None:
    """Plots a line for each series. None if there is nothing to draw.

    Args:
        series: the points by the kind of the line; see over_time.
        top: the highest value of the axis; by default a round value above all.
        times: the factor of the values in the labels.
        ending: the suffix of each label, such as "%".
        marks: events and their times, in minutes before the last point; those outside the axis are omitted.
        is_periodic: the points are reports at regular times: a line is broken where reports are missing.
    """
    if is_periodic:
        series = {kind: break_at_pauses(points) for kind, points in series.items()}
    values = values_of(series.values())
    if not values or max(map(len, series.values())) < LEAST_POINTS:
        return None
    start = min(at for points in series.values() for at, _ in points)
    start, in_seconds = min(start, -LEAST_MIN), start > -SHORT_MIN
    x, y = axes((start, 0.0), (0.0, top or round_up(max(values))))
    lines = (Line(kind, path_of(points, x, y)) for kind, points in series.items())
    return Plot(
        ticks(x, 60.0 if in_seconds else 1.0),
        ticks(y, times, ending),
        tuple(line for line in lines if line.path),
        in_seconds=in_seconds,
        is_cut=max(values) > y.high,
        marks=tuple(Mark(x(at), at, tip) for at, tip in marks if start <= at <= 0),
        series=tuple(series.items()),
        high=y.high,
        times=times,
        ending=ending,
    )


def break_at_pauses(points: Series) -> Series:
    """Returns the points with one without a value in each pause that is far longer than the usual one."""
    pauses = [later[0] - earlier[0] for earlier, later in pairwise(points)]
    if not pauses:
        return points
    longest, broken = LONGEST_PAUSE * median(pauses), points[:1]
    for pause, point in zip(pauses, points[1:], strict=True):
        if pause > longest:
            broken.append((point[0] - pause / 2, None))
        broken.append(point)
    return broken


def path_of(points: Iterable[tuple[float, float | None]], x: Scale, y: Scale) -> str:
    """Broken where there is no value. A single value is a short dash, because a line of one point is invisible."""
    drawn = []
    for has_value, run in groupby(points, key=lambda point: point[1] is not None):
        places = [f"{x(at)} {y(value)}" for at, value in run if value is not None]
        if has_value:
            drawn.append(f"M{' L'.join(places)}" + (" m-3 0 h6" if len(places) == 1 else ""))
    return " ".join(drawn)


def ticks(scale: Scale, times: float = 1.0, ending: str = "") -> tuple[Tick, ...]:
    """Returns the labelled positions of an axis.

    Args:
        scale: of the axis.
        times: the factor of the values in the labels.
        ending: the suffix of each label, such as "%".
    """
    return tuple(Tick(scale(value), f"{value * times:g}{ending}") for value in scale.ticks)


def round_up(value: float) -> float:
    """Rounds up to the next of NICE times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in NICE if value <= power * times * (1 + 1e-9))
