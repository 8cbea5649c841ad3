"""The learning curves of a task: small plots by group, smoothed or not, over steps or time, beside other tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.line_plot import Dot, Line, Plot, Series, axes, path_of, ticks
from app.kit.web.list_page import ViewQuery
from app.kit.web.live_fragment import is_current, reloads_when_gone, unchanged, version_of
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.model import State
from app.training.model.learning_curve import Curve, Point, best_of, smoothed, thin_places
from app.training.model.node_use import PREFIX
from app.training.service import TaskCurves, TaskView
from app.training.spec import read_spec
from app.training.spec.changes import Difference, differences
from app.training.store import TaskFilter

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
    is_line: bool
    """Whether a line has two points or more; a single point is shown as a number alone."""


def groups_of(curves: Mapping[str, Curve]) -> list[str]:
    """The overview, then the beginnings of the names (`actor` of `actor/loss`), in order."""
    groups = sorted({name.partition("/")[0] for name in curves if "/" in name})
    return [OVERVIEW, *groups] if len(curves) > OVERVIEW_MOST else [OVERVIEW]


def curve_plots(
    tasks: Sequence[Mapping[str, Curve]],
    group: str,
    *,
    by_time: bool = False,
    weight: float = 0.0,
    has_paths: bool = True,
) -> list[CurvePlot]:
    """The plots of a group.

    Args:
        tasks: the curves of the task that is looked at, then those of the others beside it.
        by_time: over the time since the first row, instead of the steps; what tells no time is omitted.
        weight: of the mean that smooths them.
        has_paths: whether a browser without scripts can draw the lines. False: they have their values alone.
    """
    plots = []
    for name in _choose_series(tasks[0], group):
        lines = [curves.get(name) for curves in tasks]
        by_time_too = by_time or name.startswith(PREFIX)
        made = _plot(name, lines, by_time=by_time_too, weight=weight, has_paths=has_paths)
        if made is not None:
            plots.append(made)
    return plots


def _choose_series(curves: Mapping[str, Curve], group: str) -> list[str]:
    if group != OVERVIEW:
        return sorted(name for name in curves if name.partition("/")[0] == group and "/" in name)
    ranked = sorted(curves, key=lambda name: (_rank(name), name))
    return ranked[:OVERVIEW_MOST]


def _rank(name: str) -> int:
    for place, names in enumerate(FIRST):
        if any(name == one or (one.endswith(("/", "_")) and name.startswith(one)) for one in names):
            return place
    return len(FIRST)


def _plot(
    name: str, lines: Sequence[Curve | None], *, by_time: bool, weight: float, has_paths: bool
) -> CurvePlot | None:
    drawn = [(kind, curve) for kind, curve in enumerate(lines) if curve is not None and len(curve)]
    if by_time:
        drawn = [(kind, curve) for kind, curve in drawn if curve.has_times]
    own = lines[0]
    if own is None or not drawn or drawn[0][0] != 0:
        return None
    longest = max((curve.times_s[-1] if by_time else curve.steps[-1]) for _, curve in drawn)
    unit, per_unit = _choose_unit(longest) if by_time else ("steps", 1.0)
    points = {kind: _list_points(curve, by_time=by_time, per_unit=per_unit, weight=weight) for kind, curve in drawn}
    x, y = axes(
        _find_limits([at for line in points.values() for at, _ in line]),
        _find_limits([value for line in points.values() for _, value in line]),
    )
    best, dots = best_of(name, own), []
    if best is not None:
        at = best.time_s / per_unit if by_time else best.step
        dots.append(Dot(x(at), y(best.value), "best", f"{best.value:.6g}"))
    drawn_lines = tuple(
        Line(f"task-{kind}", path_of(line, x, y) if has_paths else "") for kind, line in sorted(points.items())
    )
    series: list[tuple[str, Series]] = [(f"task-{kind}", [*line]) for kind, line in sorted(points.items())]
    plot = Plot(ticks(x), ticks(y), drawn_lines, tuple(dots), series=tuple(series))
    return CurvePlot(name, plot, own[len(own) - 1], best, unit, any(len(line) > 1 for line in points.values()))


def _list_points(curve: Curve, *, by_time: bool, per_unit: float, weight: float) -> list[tuple[float, float]]:
    values = smoothed(curve.values, weight) if weight else curve.values
    places = curve.times_s if by_time else curve.steps
    return [(places[at] / per_unit, values[at]) for at in thin_places(values, DRAWN_POINTS)]


def _find_limits(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis, never the same."""
    low, high = min(values), max(values)
    if math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12):
        margin = max(abs(low) * 0.1, 0.5)
        return low - margin, high + margin
    return low, high


def _choose_unit(longest_s: float) -> tuple[str, float]:
    if longest_s < 2 * MINUTE_S:
        return "s", 1.0
    return ("min", MINUTE_S) if longest_s < 2 * HOUR_S else ("h", HOUR_S)


SMOOTHINGS = (0.0, 0.6, 0.9)
MOST_OTHERS = 3
OFFERED = 20
"""The latest tasks, to be drawn beside this one."""


class CurveView(ViewQuery):
    """Which curves are drawn, and how."""

    x: Literal["steps", "time"] = "steps"
    """What the curves are drawn over."""
    smooth: Annotated[float, Field(ge=0, lt=1)] = SMOOTHINGS[0]
    """Weight of the mean."""
    group: Annotated[str, Field(max_length=200)] = OVERVIEW
    also: Annotated[str, Field(max_length=500)] = ""
    """Ids of other tasks, with commas."""

    @property
    def others(self) -> list[str]:
        return [task_id for task_id in dict.fromkeys(self.also.split(",")) if task_id][:MOST_OTHERS]

    def with_other(self, page: str, task_id: str) -> str:
        """The same page with another task's curves, or without, if they are there."""
        others = self.others
        changed = [other for other in others if other != task_id] if task_id in others else [*others, task_id]
        return self.url(page, also=",".join(changed[-MOST_OTHERS:]))


def metrics(request: Request) -> Response:
    chosen = query(request, CurveView)
    views = _load_views(request, chosen)
    context = _build_context(chosen, views, _read(request, views), has_paths=True)
    context |= {"offered": _list_offered(request, views[0]), "differences": _find_differences(views)}
    return render(request, "training/metrics.html", area="tasks", **context)


@reloads_when_gone
def live(request: Request) -> Response:
    """The plots again, drawn by the page's script. 204 while they are what the page shows already."""
    chosen = query(request, CurveView)
    views = _load_views(request, chosen)
    read = _read(request, views)
    if is_current(request, _digest_version(views[0], read)):
        return unchanged()
    return render(request, "training/_metrics_live.html", **_build_context(chosen, views, read, has_paths=False))


def _load_views(request: Request, chosen: CurveView) -> list[TaskView]:
    """The task, then those beside it."""
    tasks, user, task_id = training_of(request).tasks, user_of(request), request.path_params["task_id"]
    return [tasks.get(user, one) for one in (task_id, *(other for other in chosen.others if other != task_id))]


def _read(request: Request, views: Sequence[TaskView]) -> list[TaskCurves]:
    return [training_of(request).curves.read(view) for view in views]


def _digest_version(view: TaskView, read: Sequence[TaskCurves]) -> str:
    return version_of([one.version for one in read], view.task.state, len(view.attempts))


def _build_context(
    chosen: CurveView, views: Sequence[TaskView], read: Sequence[TaskCurves], *, has_paths: bool
) -> TemplateContext:
    task, groups = views[0].task, groups_of(read[0].curves)
    group = chosen.group if chosen.group in groups else OVERVIEW
    curves, by_time = [one.curves for one in read], chosen.x == "time"
    return {
        "task": task,
        "query": chosen,
        "page": f"/ui/tasks/{task.task_id}/metrics",
        "groups": groups,
        "group": group,
        "plots": curve_plots(curves, group, by_time=by_time, weight=chosen.smooth, has_paths=has_paths),
        "curves": read[0],
        "others": views[1:],
        "smoothings": SMOOTHINGS,
        "may_grow": not task.is_terminal,
        "seen": _digest_version(views[0], read),
    }


def _find_differences(views: Sequence[TaskView]) -> list[Difference]:
    """Between the tasks that are drawn together."""
    if len(views) < 2:
        return []
    with suppress(ModelmillError):  # one is of an older version of this product
        return differences([read_spec(view.task.spec_text.encode())[0] for view in views])
    return []


def _list_offered(request: Request, view: TaskView) -> list[TaskView]:
    """Other tasks that may have told something, newest first."""
    filters = TaskFilter(states=(State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELED))
    views, _ = training_of(request).tasks.page(user_of(request), filters, limit=OFFERED)
    return [one for one in views if one.task.task_id != view.task.task_id and one.task.latest_attempt_no]


ROUTES = [
    Route("/ui/tasks/{task_id}/metrics", metrics),
    Route("/ui/tasks/{task_id}/metrics/live", live),
]
