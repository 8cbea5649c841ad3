"""The plots of a job over time: delay against its limit, frame rate, quality. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from app.kit.clock import from_text
from app.kit.web.line_plot import Plot, over_time, round_up, time_plot, values_of
from app.video.pages.view_models import DecisionView, PlanChange, number, quality_of
from app.video.service import SeriesPoint

PEAK, USUAL = 3.0, 0.9
"""A value is a peak when it is so many times higher than this share of all the values."""


Marks = Sequence[tuple[float, str]]
"""What happened, and when, in minutes before the last point."""


def marks_of(points: Sequence[SeriesPoint], decisions: Iterable[DecisionView]) -> Marks:
    """Where a decision changed the plan, and what it changed."""
    if not points:
        return ()
    last = from_text(points[-1].at)
    return [
        ((from_text(shown.decided.at) - last).total_seconds() / 60, ", ".join(map(_change, shown.changes)))
        for shown in decisions
        if shown.changes
    ]


def _change(change: PlanChange) -> str:
    return f"{change.stage or change.what} {change.before or '–'} → {change.after}"


def delay_plot(points: Sequence[SeriesPoint], marks: Marks = ()) -> Plot | None:
    """Milliseconds; None while there is nothing to draw a line of. Neither a short peak nor a limit far above flattens
    the rest: the one is cut, the other left out."""
    limit = over_time(points, lambda point: 1000 * point.hi)
    delays = {kind: over_time(points, _result(f"e2e_{kind}", 1000.0)) for kind in ("p50", "p95")}
    values = values_of(delays.values())
    if not values:
        return None
    top = without_peaks(values)
    highest = max(values_of([limit]))
    if highest <= PEAK * top:
        top, delays = max(top, highest), {"hi": limit, **delays}
    return time_plot(delays, top=round_up(top), marks=marks)


def without_peaks(values: Sequence[float]) -> float:
    """How high a plot of them is to be: the highest, or less where it is far above most."""
    in_order = sorted(values)
    return min(in_order[-1], PEAK * in_order[int(USUAL * (len(in_order) - 1))])


def fps_plot(points: Sequence[SeriesPoint], marks: Marks = ()) -> Plot | None:
    rates = {"wanted": over_time(points, _planned_fps), "fps": over_time(points, _result("fps"))}
    if not values_of([rates["fps"]]):
        return None
    return time_plot(rates, top=round_up(without_peaks(values_of(rates.values()))), marks=marks)


def quality_plot(points: Sequence[SeriesPoint], marks: Marks = ()) -> Plot | None:
    """Percent."""

    def read(point: SeriesPoint) -> float | None:
        quality = quality_of(point.plan_result)
        return None if quality is None else 100 * quality

    return time_plot({"quality": over_time(points, read)}, top=100.0, marks=marks)


def _result(key: str, times: float = 1.0) -> Callable[[SeriesPoint], float | None]:
    def read(point: SeriesPoint) -> float | None:
        value = number(point.plan_result, key)
        return None if value is None else times * value

    return read


def _planned_fps(point: SeriesPoint) -> float | None:
    conf: Mapping[str, Any] = (point.plan or {}).get("video_conf") or {}
    return number(conf, "fps")
