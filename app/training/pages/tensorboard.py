"""TensorBoard of a task, below its page: for its owner. It starts when it is opened."""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web.auth import user_of
from app.kit.web.embedded_program import headers_below
from app.kit.web.http import MAX_FORM_BYTES
from app.kit.web.request_body import read_whole_body
from app.training.access import training_of
from app.training.errors import BoardUnavailable

TRIES = 2
"""One may end, because nobody had looked at it, just as somebody does."""
NO_STORE = {"Cache-Control": "no-store"}
ALLOWED = re.compile(r"'sha256-[A-Za-z0-9+/=]{44}'|'unsafe-eval'")
"""Scripts in TensorBoard's own pages, as it lists them, and what its graphs are drawn with."""


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
            headers = headers_below(request, f"{prefix}/", "", allowed=allowed, frames=True)
            return Response(answer.content, answer.status, headers=headers | NO_STORE, media_type=answer.media_type)
    raise BoardUnavailable("TensorBoard ended as soon as it was started.", hint="The log of the web server says more.")


ROUTES = [
    Route("/ui/tasks/{task_id}/tensorboard/{path:path}", tensorboard, methods=["GET", "POST"]),
]
