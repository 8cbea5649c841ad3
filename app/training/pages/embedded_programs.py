"""Programs below the page of a task: Ray's dashboard of one job, read only, for the owner of the task and
administrators, and TensorBoard of a task, for its owner, which starts when it is opened.

They have our origin, so a fault in them must not become one of ours: they may send requests only below their path, send
no forms and open no windows, and so act on none of our pages. What they load below their path has the same limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.kit.errors import ModelmillError
from app.kit.web.auth import caller_of, user_of
from app.kit.web.http import MAX_FORM_BYTES
from app.kit.web.public_address import find_reached_url
from app.kit.web.request_body import read_whole_body
from app.training.access import training_of
from app.training.errors import BoardUnavailable

SCRIPTS = "static/"
STORED = {"Cache-Control": "private, max-age=3600"}
NOT_STORED = {"Cache-Control": "no-store"}
TRIES = 2
"""One may end, because nobody had looked at it, just as somebody does."""
ALLOWED = re.compile(r"'sha256-[A-Za-z0-9+/=]{44}'|'unsafe-eval'")
"""Scripts in TensorBoard's own pages, as it lists them, and what its graphs are drawn with."""


async def ray_dashboard(request: Request) -> Response:
    """A file of the dashboard, or the answer to one of its requests. Who may not see the task is told that there is
    none."""
    training, caller, path = training_of(request), caller_of(request), request.path_params["path"]
    task_id, attempt_no = request.path_params["task_id"], request.path_params["attempt_no"]
    task, attempt = await run_in_threadpool(
        training.tasks.attempt, caller.user, task_id, attempt_no, is_admin=caller.is_admin
    )
    headers = _headers_below(request, f"/ui/tasks/{task_id}/ray/{attempt_no}/", SCRIPTS)
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


async def tensorboard(request: Request) -> Response:
    """Anything below its path: TensorBoard fetches values of curves by POST."""
    training, user, task_id = training_of(request), user_of(request), request.path_params["task_id"]
    body = await read_whole_body(request, MAX_FORM_BYTES, "A request")
    prefix = f"/ui/tasks/{task_id}/tensorboard"
    target = f"{prefix}/{quote(request.path_params['path'])}" + (f"?{request.url.query}" if request.url.query else "")
    for _ in range(TRIES):
        board = await run_in_threadpool(training.boards.opened, user, task_id, prefix)
        answer = await board.ask(request.method, target, request.headers, body)
        if answer is not None:
            allowed = ALLOWED.findall(answer.policy)
            headers = _headers_below(request, f"{prefix}/", "", allowed=allowed, frames=True)
            return Response(answer.content, answer.status, headers=headers | NOT_STORED, media_type=answer.media_type)
    raise BoardUnavailable("TensorBoard ended as soon as it was started.", hint="The log of the web server says more.")


def _headers_below(
    request: Request, base: str, scripts: str, *, allowed: Iterable[str] = (), frames: bool = False
) -> dict[str, str]:
    """The headers of a response of such a program.

    Args:
        base: The path below which all of it is, with a slash at its end.
        scripts: The folder below base that holds its scripts and styles, with a slash at its end; "": anywhere below.
        allowed: Further sources of scripts, such as hashes.
        frames: Whether it has frames and workers, with pages and scripts of its own.
    """
    own = f"{find_reached_url(request)}{base}"
    policy = {
        "default-src": "'none'",
        "script-src": " ".join((f"{own}{scripts}", *allowed)),
        "style-src": f"{own}{scripts} 'unsafe-inline'",
        "font-src": f"{own} data:",
        "img-src": f"{own} data: blob:",
        "connect-src": own,
        "frame-src": own if frames else "'none'",
        "worker-src": own if frames else "'none'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": own if frames else "'none'",
        "sandbox": "allow-scripts allow-same-origin allow-downloads",
    }
    text = "; ".join(f"{name} {value}" for name, value in policy.items())
    return {"Content-Security-Policy": text, "Referrer-Policy": "no-referrer"}


ROUTES = [
    Route("/ui/tasks/{task_id}/ray/{attempt_no:int}/{path:path}", ray_dashboard),
    Route("/ui/tasks/{task_id}/tensorboard/{path:path}", tensorboard, methods=["GET", "POST"]),
]
