"""The page of a sweep of tasks: their values and figures as a table, and as parallel coordinates."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.live_fragment import fragment, reload_page, version_of
from app.kit.web.sse import change_stream
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.pages.metrics import MOST_OTHERS
from app.training.pages.parallel_coordinates import parallel_coordinates
from app.training.store.changes import ALL_TASKS


def sweep(request: Request) -> Response:
    return render(request, "training/sweep.html", area="tasks", **_context(request))


def live(request: Request) -> Response:
    """The table and the plot anew. 204 while they are what the page shows already."""
    try:
        context = _context(request)
    except NotFound:
        return reload_page()
    return fragment(request, "training/_sweep_live.html", context)


async def events(request: Request) -> Response:
    """`changed` when any task did: also another user's, of which it tells nothing more."""
    await run_in_threadpool(training_of(request).sweeps.require, user_of(request), request.path_params["task_sweep_id"])
    return change_stream(request, ALL_TASKS)


def cancel(request: Request) -> Response:
    sweep_id = request.path_params["task_sweep_id"]
    training_of(request).sweeps.cancel(user_of(request), sweep_id, now=now())
    return see_other(f"/ui/task-sweeps/{sweep_id}")


def _context(request: Request) -> dict[str, Any]:
    view = training_of(request).sweeps.view(user_of(request), request.path_params["task_sweep_id"])
    first = [row.task.task_id for row in view.ranked[: 1 + MOST_OTHERS]]
    return {
        "view": view,
        "page": f"/ui/task-sweeps/{view.sweep_id}",
        "curves": f"/ui/tasks/{first[0]}/metrics?also={','.join(first[1:])}" if len(first) > 1 else "",
        "plot": parallel_coordinates(view),
        "is_live": not view.has_ended,
        "seen": version_of([(row.task.version, row.best) for row in view.rows]),
    }


ROUTES = [
    Route("/ui/task-sweeps/{task_sweep_id}", sweep),
    Route("/ui/task-sweeps/{task_sweep_id}/live", live),
    Route("/ui/task-sweeps/{task_sweep_id}/events", events),
    Route("/ui/task-sweeps/{task_sweep_id}/cancel", cancel, methods=["POST"]),
]
