"""Lines over axes as numbers for a template that draws them: series over time, and quality over upload. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from app.joint_inference.model.tally import upload_share_key
from app.joint_inference.service import Point
from app.kit.clock import from_text
from app.kit.web.charts import Scale

WIDTH, HEIGHT = 560, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 42
LATENCIES = (("edge-50", "edgeMsP50"), ("edge-95", "edgeMsP95"), ("cloud-50", "cloudMsP50"), ("cloud-95", "cloudMsP95"))
LEAST_POINTS = 2
SHORT_MIN = 2.0
"""What is shorter has seconds below it."""


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Line:
    """path: of an SVG path. kind: which one it is; the stylesheet colours it."""

    kind: str
    path: str


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    kind: str
    tip: str


@dataclass(frozen=True)
class Plot:
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    dots: tuple[Dot, ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM
    in_seconds: bool = False
    """Of a plot over time: what its x is labelled in."""

    @property
    def kinds(self) -> set[str]:
        return {line.kind for line in self.lines} | {dot.kind for dot in self.dots}


def axes(x: tuple[float, float], y: tuple[float, float]) -> tuple[Scale, Scale]:
    return Scale(*x, LEFT, WIDTH - RIGHT), Scale(*y, HEIGHT - BOTTOM, TOP)


def latency_plot(points: Sequence[Point]) -> Plot | None:
    """None while there is nothing to draw a line of. x: minutes before the last point."""
    found = {kind: _over_time(points, lambda p, key=key: _value(p, key)) for kind, key in LATENCIES}  # type: ignore[misc]
    return _timed(found, len(points), top=None, unit=1.0)


def upload_plot(points: Sequence[Point]) -> Plot | None:
    """In percent: since the start, and of what was seen between two points."""
    since_start = _over_time(points, lambda p: _value(p, upload_share_key(p.task_info)))
    between = []
    for (minutes, _), earlier, later in zip(since_start[1:], points, points[1:], strict=False):
        between.append((minutes, _share(earlier, later)))
    return _timed({"upload-now": between, "upload-all": since_start}, len(points), top=1.0, unit=100.0)


def path_of(points: Iterable[tuple[float, float | None]], x: Scale, y: Scale) -> str:
    """Broken where there is no value. One that stands alone is a short dash: a line of one point would not be seen."""
    drawn = []
    for is_known, run in groupby(points, key=lambda point: point[1] is not None):
        places = [f"{x(at)} {y(value)}" for at, value in run if value is not None]
        if is_known:
            drawn.append(f"M{' L'.join(places)}" + (" m-3 0 h6" if len(places) == 1 else ""))
    return " ".join(drawn)


def ticks(scale: Scale, times: float = 1.0, ending: str = "") -> tuple[Tick, ...]:
    return tuple(Tick(scale(value), f"{value * times:g}{ending}") for value in scale.ticks)


def round_up(value: float) -> float:
    """To the next 1, 2 or 5 times a power of ten, or half of it."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if value <= power * times * (1 + 1e-9))


Series = list[tuple[float, float | None]]


def _timed(found: dict[str, Series], count: int, *, top: float | None, unit: float) -> Plot | None:
    values = [value for series in found.values() for _, value in series if value is not None]
    if count < LEAST_POINTS or not values:
        return None
    start = min(at for series in found.values() for at, _ in series)
    start, in_seconds = min(start, -0.5), start > -SHORT_MIN
    x, y = axes((start, 0.0), (0.0, top or round_up(max(values))))
    lines = tuple(Line(kind, path_of(series, x, y)) for kind, series in found.items())
    x_ticks = ticks(x, 60.0) if in_seconds else ticks(x)
    y_ticks = ticks(y, unit, "%" if top else "")
    return Plot(x_ticks, y_ticks, tuple(line for line in lines if line.path), in_seconds=in_seconds)


def _over_time(points: Sequence[Point], read: Callable[[Point], float | None]) -> Series:
    if not points:
        return []
    last = from_text(points[-1].at)
    return [((from_text(point.at) - last).total_seconds() / 60, read(point)) for point in points]


def _value(point: Point, key: str) -> float | None:
    value = point.task_info.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _share(earlier: Point, later: Point) -> float | None:
    """None when nothing was seen between them, or the counts began anew."""
    counts = [(_value(p, "inferenceNumber"), _uploaded(p)) for p in (earlier, later)]
    (seen, sent), (seen_later, sent_later) = counts
    if None in (seen, sent, seen_later, sent_later):
        return None
    assert seen is not None and sent is not None and seen_later is not None and sent_later is not None
    if seen_later <= seen or sent_later < sent:
        return None
    return min(1.0, (sent_later - sent) / (seen_later - seen))


def _uploaded(point: Point) -> float | None:
    found = _value(point, "uploadNumber")
    return _value(point, "hardExampleNumber") if found is None else found
