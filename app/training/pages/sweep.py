"""The page of a sweep of tasks: their values and figures as a table, and as parallel coordinates: an axis
for each field that differs and one for the figure, a line for each task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.text.json_values import JsonObject, is_number
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.live_fragment import fragment, reloads_when_gone, version_of
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.pages.metrics import MOST_OTHERS
from app.training.service.sweeps import SweepRow, SweepView
from app.training.store.changes import ALL_TASKS


def sweeps(request: Request) -> Response:
    views = training_of(request).sweeps.views(user_of(request))
    return render(request, "training/sweeps.html", area="tasks", views=views)


def sweep(request: Request) -> Response:
    return render(request, "training/sweep.html", area="tasks", **_build_context(request))


@reloads_when_gone
def live(request: Request) -> Response:
    """The table and the plot again. 204 while they are what the page shows already."""
    context = _build_context(request)
    return fragment(request, "training/_sweep_live.html", context)


def _require_sweep(request: Request) -> None:
    training_of(request).sweeps.require(user_of(request), request.path_params["task_sweep_id"])


def cancel(request: Request) -> Response:
    sweep_id = request.path_params["task_sweep_id"]
    training_of(request).sweeps.cancel(user_of(request), sweep_id, now=now())
    return see_other(f"/ui/task-sweeps/{sweep_id}")


def _build_context(request: Request) -> TemplateContext:
    view = training_of(request).sweeps.view(user_of(request), request.path_params["task_sweep_id"])
    first = [row.task.task_id for row in view.ranked[: 1 + MOST_OTHERS]]
    sort, is_descending = request.query_params.get("sort", ""), request.query_params.get("order") == "desc"
    return {
        "view": view,
        "page": f"/ui/task-sweeps/{view.sweep_id}",
        "rows": sort_rows(view, sort, is_descending=is_descending),
        "sort": sort,
        "is_descending": is_descending,
        "curves": f"/ui/tasks/{first[0]}/metrics?also={','.join(first[1:])}" if len(first) > 1 else "",
        "plot": parallel_coordinates(view),
        "is_live": not view.has_ended,
        "seen": version_of([view.is_open, view.remark, *((row.task.version, row.best) for row in view.rows)]),
    }


BEST, STATE = "best", "state"
"""Columns by which a table is sorted, beside the fields of a sweep."""


def sort_rows(view: SweepView, column: str, *, is_descending: bool) -> list[SweepRow]:
    """In the order of submission if there is no such column; what has no value comes last."""
    if column == BEST:
        keys: JsonObject = {row.task.task_id: row.best.value if row.best else None for row in view.rows}
    elif column == STATE:
        keys = {row.task.task_id: row.task.state.value for row in view.rows}
    elif column in view.fields:
        keys = {row.task.task_id: row.values.get(column) for row in view.rows}
    else:
        return list(view.rows)
    known = [row for row in view.rows if keys[row.task.task_id] is not None]
    known.sort(key=lambda row: _order(keys[row.task.task_id]), reverse=is_descending)
    return known + [row for row in view.rows if keys[row.task.task_id] is None]


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers before words."""
    return (False, float(value), "") if is_number(value) else (True, 0.0, str(value))


ROUTES = [
    Route("/ui/task-sweeps", sweeps),
    Route("/ui/task-sweeps/{task_sweep_id}", sweep),
    Route("/ui/task-sweeps/{task_sweep_id}/live", live),
    Route("/ui/task-sweeps/{task_sweep_id}/events", changes_of(ALL_TASKS, guard=_require_sweep)),
    Route("/ui/task-sweeps/{task_sweep_id}/cancel", cancel, methods=["POST"]),
]


WIDTH, HEIGHT, MARGIN_X, TOP, BOTTOM = 900.0, 260.0, 70.0, 34.0, 16.0
LOG_FROM = 50.0
"""Positive numbers whose ends are further apart than this are drawn by their orders of magnitude."""
MOST_WORDS = 8
"""Labels of an axis of words."""


@dataclass(frozen=True)
class Axis:
    name: str
    x: float
    labels: Sequence[tuple[float, str]]
    """Places on it, with what stands there."""


@dataclass(frozen=True)
class TaskLine:
    task_id: str
    name: str
    points: str
    """Of an SVG polyline."""
    is_best: bool


@dataclass(frozen=True)
class ParallelCoordinates:
    axes: Sequence[Axis]
    lines: Sequence[TaskLine]
    """The best one last, above the others."""
    width: float = WIDTH
    height: float = HEIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def parallel_coordinates(view: SweepView) -> ParallelCoordinates | None:
    """None if there is nothing to compare: fewer than two tasks have the figure."""
    rows = view.ranked
    if len(rows) < 2 or not view.fields:
        return None
    columns = [(name, [row.values.get(name) for row in rows]) for name in view.fields]
    columns.append((view.metric, [row.best.value for row in rows if row.best is not None]))
    step = (WIDTH - 2 * MARGIN_X) / (len(columns) - 1)
    axes, heights = [], []
    for number, (name, values) in enumerate(columns):
        places = _locate_values(values)
        heights.append([places[repr(value)] for value in values])
        axes.append(Axis(name, round(MARGIN_X + number * step, 1), _list_labels(values, places)))
    across = [axis.x for axis in axes]
    lines = [
        _make_line(row, zip(across, ys, strict=True)) for row, ys in zip(rows, zip(*heights, strict=True), strict=True)
    ]
    return ParallelCoordinates(axes, sorted(lines, key=lambda line: line.is_best))


def _make_line(row: SweepRow, points: Iterable[tuple[float, float]]) -> TaskLine:
    text = " ".join(f"{x:g},{y:g}" for x, y in points)
    return TaskLine(row.task.task_id, row.task.name or row.task.task_id, text, row.is_best)


def _locate_values(values: Sequence[JsonValue]) -> dict[str, float]:
    """Where each value stands, by its key: numbers by their size, others side by side."""
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) == len(values):
        is_log = min(numbers) > 0 and max(numbers) / min(numbers) > LOG_FROM
        shares = [math.log(number) if is_log else number for number in numbers]
        low, high = min(shares), max(shares)
        places = [_to_y((share - low) / (high - low) if high > low else 0.5) for share in shares]
        return dict(zip(map(repr, values), places, strict=True))
    kinds = list(dict.fromkeys(map(repr, values)))
    return {kind: _to_y(at / (len(kinds) - 1) if len(kinds) > 1 else 0.5) for at, kind in enumerate(kinds)}


def _to_y(share: float) -> float:
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _list_labels(values: Sequence[JsonValue], places: dict[str, float]) -> list[tuple[float, str]]:
    """Of an axis of numbers its ends, of one of words each."""
    labels = {places[repr(value)]: _to_text(value) for value in values}
    ends = [min(labels), max(labels)] if all(map(is_number, values)) else sorted(labels)[:MOST_WORDS]
    return [(y, labels[y]) for y in dict.fromkeys(ends)]


def _to_text(value: JsonValue) -> str:
    return f"{value:.4g}" if is_number(value) else "–" if value is None else str(value)[:20]
