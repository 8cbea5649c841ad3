"""The learning curves of a task: small plots by group, smoothed or not, over steps or time, beside other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.live_fragment import fragment, reload_page, version_of
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.model import State
from app.training.pages.curve_plots import OVERVIEW, CurvePlot, curve_plots, groups_of
from app.training.service import TaskView
from app.training.spec import read_spec
from app.training.spec.changes import Difference, differences
from app.training.store import TaskFilter

SMOOTHINGS = (0.0, 0.6, 0.9)
MOST_OTHERS = 3
OFFERED = 20
"""The latest tasks, to be drawn beside this one."""


class CurveView(BaseModel):
    """Which curves are drawn, and how."""

    x: Literal["steps", "time"] = "steps"
    """What the curves are drawn over."""
    smooth: Annotated[float, Field(ge=0, lt=1)] = SMOOTHINGS[0]
    """Weight of the mean."""
    group: Annotated[str, Field(max_length=200)] = OVERVIEW
    also: Annotated[str, Field(max_length=500)] = ""
    """Ids of other tasks, with commas."""
    seen: Annotated[str, Field(max_length=64)] = ""

    @property
    def others(self) -> list[str]:
        return [task_id for task_id in dict.fromkeys(self.also.split(",")) if task_id][:MOST_OTHERS]

    def url(self, page: str, **change: Any) -> str:
        """The same page with something changed; what is usual is left out."""
        usual = CurveView().model_dump()
        values = {**self.model_dump(exclude={"seen"}), **change}
        kept = {name: value for name, value in values.items() if value != usual.get(name)}
        return f"{page}?{urlencode(kept)}" if kept else page

    def with_other(self, page: str, task_id: str) -> str:
        """The same page with another task's curves, or without, if they are there."""
        others = self.others
        changed = [other for other in others if other != task_id] if task_id in others else [*others, task_id]
        return self.url(page, also=",".join(changed[-MOST_OTHERS:]))


def metrics(request: Request) -> Response:
    return render(request, "training/metrics.html", area="tasks", **_context(request, query(request, CurveView)))


def live(request: Request) -> Response:
    """The plots anew. 204 while they are what the page shows already."""
    try:
        context = _context(request, query(request, CurveView))
    except NotFound:
        return reload_page()
    return fragment(request, "training/_metrics_live.html", context)


def _context(request: Request, chosen: CurveView) -> dict[str, Any]:
    training, user = training_of(request), user_of(request)
    view = training.tasks.get(user, request.path_params["task_id"])
    others = [training.tasks.get(user, task_id) for task_id in chosen.others if task_id != view.task.task_id]
    read = [training.curves.read(one) for one in (view, *others)]
    groups = groups_of(read[0].curves)
    group = chosen.group if chosen.group in groups else OVERVIEW
    plots: Sequence[CurvePlot] = curve_plots(
        [one.curves for one in read], group, by_time=chosen.x == "time", weight=chosen.smooth
    )
    return {
        "view": view,
        "task": view.task,
        "query": chosen,
        "page": f"/ui/tasks/{view.task.task_id}/metrics",
        "groups": groups,
        "group": group,
        "plots": plots,
        "curves": read[0],
        "others": others,
        "offered": _offered(request, view),
        "differences": _differences([view, *others]),
        "smoothings": SMOOTHINGS,
        "may_grow": not view.task.is_terminal,
        "seen": version_of([one.version for one in read], view.task.state, len(view.attempts)),
    }


def _differences(views: Sequence[TaskView]) -> list[Difference]:
    """Between the tasks that are drawn together."""
    if len(views) < 2:
        return []
    with suppress(ModelmillError):  # one is of an older version of this product
        return differences([read_spec(view.task.spec_text.encode())[0] for view in views])
    return []


def _offered(request: Request, view: TaskView) -> list[TaskView]:
    """Other tasks that may have told something, newest first."""
    filters = TaskFilter(states=(State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELED))
    views, _ = training_of(request).tasks.page(user_of(request), filters, limit=OFFERED)
    return [one for one in views if one.task.task_id != view.task.task_id and one.task.latest_attempt_no]


ROUTES = [
    Route("/ui/tasks/{task_id}/metrics", metrics),
    Route("/ui/tasks/{task_id}/metrics/live", live),
]
