"""The plots of a job over time: delay against its limit, frame rate, quality. Pure; the template draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from app.kit.clock import from_text
from app.kit.web.charts import Scale
from app.video.pages.view_models import number, quality_of
from app.video.service import Point

WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 42
LEAST_POINTS = 2
PEAK, USUAL = 3.0, 0.9
"""What is so many times higher than this share of all the values."""
SHORT_MIN = 2.0
"""What is shorter has seconds below it."""
Series = list[tuple[float, float | None]]
NICE = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True)
class Plot:
    """lines: (kind, path of SVG); kind is the stylesheet's. ticks: (place, label)."""

    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    lines: tuple[tuple[str, str], ...]
    in_seconds: bool
    is_cut: bool = False
    """Values above are drawn at the upper edge."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def delay_plot(points: Sequence[Point]) -> Plot | None:
    """Milliseconds; None while there is nothing to draw a line of. Neither a short peak nor a limit far above flattens
    the rest: the one is cut, the other left out."""
    limit = _over_time(points, lambda point: 1000 * point.hi)
    found = {
        "p50": _over_time(points, _result("e2e_p50", 1000.0)),
        "p95": _over_time(points, _result("e2e_p95", 1000.0)),
    }
    values = [value for series in found.values() for _, value in series if value is not None]
    if not values:
        return None
    top = without_peaks(values)
    highest = max(value or 0.0 for _, value in limit)
    if highest <= PEAK * top:
        top, found = max(top, highest), {"hi": limit, **found}
    drawn = _drawn(found, len(points), top=_round_up(top))
    return replace(drawn, is_cut=max(values) > _round_up(top)) if drawn else None


def without_peaks(values: Sequence[float]) -> float:
    """How high a plot of them is to be: the highest, or less where it is far above most."""
    in_order = sorted(values)
    return min(in_order[-1], PEAK * in_order[int(USUAL * (len(in_order) - 1))])


def fps_plot(points: Sequence[Point]) -> Plot | None:
    wanted = _over_time(points, lambda point: _conf(point, "fps"))
    found = _over_time(points, _result("fps"))
    values = [value for _, value in (*wanted, *found) if value is not None]
    top = _round_up(without_peaks(values)) if values else None
    return _drawn({"wanted": wanted, "fps": found}, len(points), top=top, needed="fps")


def quality_plot(points: Sequence[Point]) -> Plot | None:
    def read(point: Point) -> float | None:
        found = quality_of(point.plan_result)
        return None if found is None else 100 * found

    return _drawn({"quality": _over_time(points, read)}, len(points), top=100.0)


def _result(key: str, times: float = 1.0) -> Callable[[Point], float | None]:
    def read(point: Point) -> float | None:
        value = number(point.plan_result, key)
        return None if value is None else times * value

    return read


def _conf(point: Point, key: str) -> float | None:
    conf: Mapping[str, Any] = (point.plan or {}).get("video_conf") or {}
    return number(conf, key)


def _over_time(points: Sequence[Point], read: Callable[[Point], float | None]) -> Series:
    """x: minutes before the last point."""
    if not points:
        return []
    last = from_text(points[-1].at)
    return [((from_text(point.at) - last).total_seconds() / 60, read(point)) for point in points]


def _drawn(found: Mapping[str, Series], count: int, *, top: float | None = None, needed: str = "") -> Plot | None:
    values = [value for series in found.values() for _, value in series if value is not None]
    is_said = any(value is not None for _, value in found.get(needed, ())) if needed else bool(values)
    if count < LEAST_POINTS or not is_said:
        return None
    start = min(at for series in found.values() for at, _ in series)
    start, in_seconds = min(start, -0.1), start > -SHORT_MIN
    x = Scale(start, 0.0, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, top or _round_up(max(values)), HEIGHT - BOTTOM, TOP)
    lines = tuple((kind, path_of(series, x, y)) for kind, series in found.items())
    minutes = 60.0 if in_seconds else 1.0
    return Plot(
        tuple((x(tick), f"{tick * minutes:g}") for tick in x.ticks),
        tuple((y(tick), f"{tick:g}") for tick in y.ticks),
        tuple(line for line in lines if line[1]),
        in_seconds,
    )


def path_of(points: Series, x: Scale, y: Scale) -> str:
    """Broken where there is no value. One that stands alone is a short dash: a line of one point would not be seen."""
    drawn = []
    for is_known, run in groupby(points, key=lambda point: point[1] is not None):
        places = [f"{x(at)} {y(value)}" for at, value in run if value is not None]
        if is_known:
            drawn.append(f"M{' L'.join(places)}" + (" m-3 0 h6" if len(places) == 1 else ""))
    return " ".join(drawn)


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * times for times in NICE if value <= power * times * (1 + 1e-9))
