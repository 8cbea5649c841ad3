"""The administrators' page of everybody's tasks: filter, change the priority of one that waits, cancel one."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.model import Priority, State, Workload
from app.training.pages import view_models
from app.training.pages.queue_health import condition_of
from app.training.pages.tasks import PAGE_TASKS, TaskListQuery

PAGE = "/ui/admin/tasks"


class AllTasksQuery(TaskListQuery):
    PAGE: ClassVar[str] = PAGE
    user: Annotated[str, Field(max_length=32)] | None = None
    """Whose; without it everybody's."""


class PriorityForm(BaseModel):
    priority: Priority


def tasks(request: Request, error: ModelmillError | None = None) -> Response:
    """error: why what was clicked could not be done."""
    training, filters = training_of(request), query(request, AllTasksQuery)
    views, older = training.tasks.page(filters.user or None, filters.filter(), cursor=filters.cursor, limit=PAGE_TASKS)
    return render(
        request,
        "training/all_tasks.html",
        area="all-tasks",
        filters=filters,
        views=views,
        older=older,
        condition=condition_of(training),
        workloads=list(Workload),
        states=list(State),
        priorities=list(Priority),
        short=view_models.short,
        error=error,
    )


@with_form(PriorityForm)
def set_priority(request: Request, fields: PriorityForm) -> Response:
    try:
        training_of(request).tasks.changes.set_priority(
            user_of(request), request.path_params["task_id"], fields.priority, now=now(), is_admin=True
        )
    except ModelmillError as error:
        return tasks(request, error)
    return see_other(PAGE)


def cancel(request: Request) -> Response:
    try:
        changes, task_id = training_of(request).tasks.changes, request.path_params["task_id"]
        changes.cancel(user_of(request), task_id, now=now(), is_admin=True)
    except ModelmillError as error:
        return tasks(request, error)
    return see_other(PAGE)


ROUTES = [
    Route(PAGE, tasks),
    Route(f"{PAGE}/{{task_id}}/priority", set_priority, methods=["POST"]),
    Route(f"{PAGE}/{{task_id}}/cancel", cancel, methods=["POST"]),
]
