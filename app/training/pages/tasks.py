"""The list of tasks: filter, page through, watch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.list_page import ListQuery
from app.kit.web.live_fragment import fragment, version_of
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.model import TERMINAL, State, Workload
from app.training.pages import view_models
from app.training.pages.queue_health import QueueHealth, condition_of
from app.training.service import TaskView
from app.training.store import TaskFilter
from app.training.store.changes import ALL_TASKS

PAGE_TASKS = 50
UNENDED = "unended"
CURSOR = r"^[0-9]{1,9}$"


class TaskListQuery(ListQuery):
    PAGE: ClassVar[str] = "/ui/tasks"
    workload: Workload | None = None
    state: State | Literal["unended"] | None = None
    since: date | None = None
    """The first day, in UTC."""
    until: date | None = None
    """The last day, in UTC."""
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None

    def filter(self) -> TaskFilter:
        if self.state is None:
            states = None
        else:
            states = frozenset(State) - TERMINAL if self.state == UNENDED else frozenset({State(self.state)})
        return TaskFilter(
            states=states,
            workload=self.workload,
            since=f"{self.since}T00" if self.since else None,
            until=f"{self.until}T24" if self.until else None,  # all of that day: as text, T24 sorts last
            text=self.q,
        )


def tasks(request: Request) -> Response:
    return render(
        request,
        "training/tasks.html",
        area="tasks",
        workloads=list(Workload),
        states=list(State),
        **_build_context(request),
    )


def rows(request: Request) -> Response:
    """The table again while something in it has not ended. 204 when it is what the page shows already."""
    return fragment(request, "training/_tasks_live.html", _build_context(request))


def _build_context(request: Request) -> TemplateContext:
    training, filters = training_of(request), query(request, TaskListQuery)
    views, older = training.tasks.page(user_of(request), filters.filter(), cursor=filters.cursor, limit=PAGE_TASKS)
    condition = condition_of(training)
    return {
        "filters": filters,
        "views": views,
        "older": older,
        "condition": condition,
        "is_live": any(not view.task.is_terminal for view in views),
        "seen": _digest_version(views, condition),
        "took": {view.task.task_id: view_models.took_s(view.task, now()) for view in views},
        "short": view_models.short,
    }


def _digest_version(views: Sequence[TaskView], condition: QueueHealth) -> str:
    rows = [(view.task.task_id, view.task.version, view.waiting, view.ahead, _list_claims(view)) for view in views]
    return version_of(str(condition.trouble), rows)


def _list_claims(view: TaskView) -> list[str | None]:
    return [attempt.placement_pending_since for attempt in view.attempts]


ROUTES = [
    Route("/ui/tasks", tasks),
    Route("/ui/tasks/rows", rows),
    Route("/ui/tasks/events", changes_of(ALL_TASKS)),
]
