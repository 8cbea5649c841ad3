"""The list of tasks: filter, page through, watch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import FilterForm, query
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.model import TERMINAL, State, Workload
from app.training.pages import view_models
from app.training.pages.queue_health import Condition, condition_of
from app.training.service import TaskView
from app.training.store import Filter

PAGE_TASKS = 50
UNENDED = "unended"
CURSOR = r"^[0-9]{1,9}$"
FILTERS = {"workload", "state", "since", "until", "q"}


class ListQuery(FilterForm):
    """since, until: days in UTC, both included.

    seen: what the page shows already, for the fragment that keeps it current.
    """

    workload: Workload | None = None
    state: State | Literal["unended"] | None = None
    since: date | None = None
    until: date | None = None
    q: Annotated[str, Field(max_length=200)] | None = None
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    seen: Annotated[str, Field(max_length=64)] = ""

    @property
    def is_filtered(self) -> bool:
        return any(self.model_dump(include=FILTERS).values())

    def filter(self) -> Filter:
        if self.state is None:
            states = None
        else:
            states = frozenset(State) - TERMINAL if self.state == UNENDED else frozenset({State(self.state)})
        return Filter(
            states=states,
            workload=self.workload,
            since=_midnight(self.since, 0),
            until=_midnight(self.until, 1),
            text=self.q,
        )

    def url(self, page: str = "/ui/tasks", **further: str | None) -> str:
        kept = self.model_dump(mode="json", include=FILTERS, exclude_none=True)
        return f"{page}?" + urlencode({**kept, **{name: value for name, value in further.items() if value}})


def _midnight(day: date | None, days_later: int) -> str | None:
    return None if day is None else f"{day + timedelta(days=days_later)}T00:00:00.000Z"


def tasks(request: Request) -> Response:
    asked = query(request, ListQuery)
    return render(
        request,
        "training/tasks.html",
        area="tasks",
        workloads=list(Workload),
        states=list(State),
        **_rows(request, asked),
    )


def rows(request: Request) -> Response:
    """The table anew while something in it has not ended. 204 when it is what the page shows already."""
    asked = query(request, ListQuery)
    context = _rows(request, asked)
    if asked.seen == context["seen"]:
        return Response(status_code=204)
    return render(request, "training/_tasks_live.html", **context)


def _rows(request: Request, asked: ListQuery) -> dict[str, Any]:
    training = training_of(request)
    found, older = training.tasks.page(user_of(request), asked.filter(), cursor=asked.cursor, limit=PAGE_TASKS)
    condition = condition_of(training)
    return {
        "asked": asked,
        "views": found,
        "older": older,
        "condition": condition,
        "is_live": any(not view.task.is_terminal for view in found),
        "seen": _version(found, condition),
        "took": {view.task.task_id: view_models.took_s(view.task, now()) for view in found},
        "short": view_models.short,
    }


def _version(found: Sequence[TaskView], condition: Condition) -> str:
    """Names what is shown: equal while nothing would look different."""
    what = [f"{view.task.task_id} {view.task.version} {view.waiting} {view.ahead} {_claims(view)}" for view in found]
    return sha256("\n".join([str(condition.trouble), *what]).encode()).hexdigest()[:12]


def _claims(view: TaskView) -> list[str | None]:
    return [attempt.placement_pending_since for attempt in view.attempts]


ROUTES = [
    Route("/ui/tasks", tasks),
    Route("/ui/tasks/rows", rows),
]
