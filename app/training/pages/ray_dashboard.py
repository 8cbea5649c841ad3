"""Ray's dashboard of one job, below the page of its task: for the owner of the task and administrators, read only."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.kit.errors import ModelmillError
from app.kit.web.auth import caller_of
from app.kit.web.embedded_program import headers_below
from app.training.access import training_of

SCRIPTS = "static/"
STORED = {"Cache-Control": "private, max-age=3600"}
NOT_STORED = {"Cache-Control": "no-store"}


async def ray_dashboard(request: Request) -> Response:
    """A file of the dashboard, or the answer to one of its requests. Who may not see the task is told that there is
    none."""
    training, caller, path = training_of(request), caller_of(request), request.path_params["path"]
    task_id, attempt_no = request.path_params["task_id"], request.path_params["attempt_no"]
    task, attempt = await run_in_threadpool(
        training.tasks.attempt, caller.user, task_id, attempt_no, is_admin=caller.is_admin
    )
    headers = headers_below(request, f"/ui/tasks/{task_id}/ray/{attempt_no}/", SCRIPTS)
    dashboard = training.job_dashboard

    async def log(lines: int) -> bytes:
        """Administrators do not read the logs of others."""
        view = await run_in_threadpool(training.tasks.log, caller.user, task_id, attempt_no=attempt_no, tail=lines)
        return view.data

    if not path:
        await dashboard.require(attempt)
    try:
        file, caching = await dashboard.file(attempt, path), STORED if path else NOT_STORED
        if file is None:
            hidden = await run_in_threadpool(dashboard.hidden_variables, task)
            file, caching = await dashboard.data(attempt, path, request.query_params, hidden, log), NOT_STORED
    except ModelmillError as error:
        if not path:
            raise
        return JSONResponse({"error": error.to_dict()}, error.status, headers=headers | NOT_STORED)
    return Response(file.content, media_type=file.media_type, headers=headers | caching)


ROUTES = [Route("/ui/tasks/{task_id}/ray/{attempt_no:int}/{path:path}", ray_dashboard)]
