"""Learning curves as plots: which come first, and what each is drawn of. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.kit.web.line_plot import Dot, Line, Plot, axes, path_of, ticks
from app.training.model.learning_curve import Curve, Point, best_of, smoothed, thinned_places

OVERVIEW = ""
OVERVIEW_MOST = 12
DRAWN_POINTS = 400
"""Of one line: more than a plot has pixels to tell apart."""
FIRST = (
    ("critic/rewards/mean", "critic/score/mean", "reward", "train/reward"),
    ("val/", "val-core/", "val_", "test/", "eval/"),
    ("train/loss", "loss", "actor/pg_loss", "actor/loss", "critic/vf_loss"),
    ("actor/ppo_kl", "actor/kl_loss", "actor/kl", "kl"),
    ("actor/entropy", "entropy"),
    ("accuracy", "acc"),
    ("response_length/mean", "prompt_length/mean"),
    ("actor/lr", "critic/lr", "train/lr", "lr", "learning_rate"),
    ("actor/grad_norm", "critic/grad_norm", "train/grad_norm", "grad_norm"),
    ("perf/throughput", "throughput", "perf/mfu/actor", "timing_s/step", "perf/max_memory_allocated_gb"),
)
"""What a reader looks for first: names, or beginnings of names that end in / or _."""
MINUTE_S, HOUR_S = 60.0, 3600.0


@dataclass(frozen=True)
class CurvePlot:
    name: str
    plot: Plot
    last: Point
    best: Point | None
    unit: str
    """Of the x axis: steps, s, min or h."""


def groups_of(curves: Mapping[str, Curve]) -> list[str]:
    """The overview, then the beginnings of the names (`actor` of `actor/loss`), in order."""
    groups = sorted({name.partition("/")[0] for name in curves if "/" in name})
    return [OVERVIEW, *groups] if len(curves) > OVERVIEW_MOST else [OVERVIEW]


def curve_plots(
    tasks: Sequence[Mapping[str, Curve]], group: str, *, by_time: bool = False, weight: float = 0.0
) -> list[CurvePlot]:
    """The plots of a group.

    Args:
        tasks: the curves of the task that is looked at, then those of the others beside it.
        by_time: over the time since the first row, in place of the steps; what tells no time is left out.
        weight: of the mean that smooths them.
    """
    plots = []
    for name in _chosen(tasks[0], group):
        lines = [curves.get(name) for curves in tasks]
        made = _plot(name, lines, by_time=by_time, weight=weight)
        if made is not None:
            plots.append(made)
    return plots


def _chosen(curves: Mapping[str, Curve], group: str) -> list[str]:
    if group != OVERVIEW:
        return sorted(name for name in curves if name.partition("/")[0] == group and "/" in name)
    ranked = sorted(curves, key=lambda name: (_rank(name), name))
    return ranked[:OVERVIEW_MOST]


def _rank(name: str) -> int:
    for place, names in enumerate(FIRST):
        if any(name == one or (one.endswith(("/", "_")) and name.startswith(one)) for one in names):
            return place
    return len(FIRST)


def _plot(name: str, lines: Sequence[Curve | None], *, by_time: bool, weight: float) -> CurvePlot | None:
    drawn = [(kind, curve) for kind, curve in enumerate(lines) if curve is not None and len(curve)]
    if by_time:
        drawn = [(kind, curve) for kind, curve in drawn if curve.has_times]
    own = lines[0]
    if own is None or not drawn or drawn[0][0] != 0:
        return None
    longest = max((curve.times_s[-1] if by_time else curve.steps[-1]) for _, curve in drawn)
    unit, per_unit = _unit(longest) if by_time else ("steps", 1.0)
    points = {kind: _points(curve, by_time=by_time, per_unit=per_unit, weight=weight) for kind, curve in drawn}
    x, y = axes(_around([at for line in points.values() for at, _ in line]), _around(_values(points.values())))
    best, dots = best_of(name, own), []
    if best is not None:
        at = best.time_s / per_unit if by_time else best.step
        dots.append(Dot(x(at), y(best.value), "best", f"{best.value:.6g}"))
    drawn_lines = tuple(Line(f"task-{kind}", path_of(line, x, y)) for kind, line in sorted(points.items()))
    series = tuple((f"task-{kind}", [*line]) for kind, line in sorted(points.items()))
    plot = Plot(ticks(x), ticks(y), drawn_lines, tuple(dots), series=series)
    return CurvePlot(name, plot, own[len(own) - 1], best, unit)


def _points(curve: Curve, *, by_time: bool, per_unit: float, weight: float) -> list[tuple[float, float]]:
    values = smoothed(curve.values, weight) if weight else curve.values
    places = curve.times_s if by_time else curve.steps
    return [(places[at] / per_unit, values[at]) for at in thinned_places(values, DRAWN_POINTS)]


def _values(lines: Iterable[Sequence[tuple[float, float]]]) -> list[float]:
    return [value for line in lines for _, value in line]


def _around(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis, never the same."""
    low, high = min(values), max(values)
    if math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12):
        margin = max(abs(low) * 0.1, 0.5)
        return low - margin, high + margin
    return low, high


def _unit(longest_s: float) -> tuple[str, float]:
    if longest_s < 2 * MINUTE_S:
        return "s", 1.0
    return ("min", MINUTE_S) if longest_s < 2 * HOUR_S else ("h", HOUR_S)
