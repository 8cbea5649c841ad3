"""The log of an attempt: its last lines, renewed while it runs. Works by links alone."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.errors import NotFound
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.live_fragment import fragment, reload_page
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.errors import LogMissing
from app.training.pages.log_text import log_markup
from app.training.service import LineFilter, LogView, TaskView

TAILS = (200, 1000, 2000, 5000)
USUAL_TAIL = 2000
LOG_FILE = "driver.log"


class LogPageQuery(BaseModel):
    """What of a log is shown, and how."""

    tail: Annotated[int, Field(ge=1, le=TAILS[-1])] = USUAL_TAIL
    attempt: Annotated[int, Field(ge=1)] | None = None
    """None: the last one, whichever that is."""
    refresh: Literal["on", "off"] = "on"
    wrap: Literal["on", "off"] = "off"
    q: Annotated[str, Field(max_length=200)] = ""
    """Lines with this text alone."""
    process: Annotated[str, Field(max_length=200)] = ""
    """Lines of this process alone."""
    seen: Annotated[str, Field(max_length=64)] = ""

    @property
    def lines(self) -> LineFilter:
        return LineFilter(self.q.strip(), self.process)

    def url(self, page: str, **change: Any) -> str:
        """The same page with something changed; what is usual is left out."""
        usual = LogPageQuery().model_dump()
        values = {**self.model_dump(exclude={"seen"}), **change}
        kept = {name: value for name, value in values.items() if value != usual.get(name)}
        return f"{page}?{urlencode(kept)}" if kept else page


def log(request: Request) -> Response:
    return render(request, "training/log.html", area="tasks", **_context(request, query(request, LogPageQuery)))


def live(request: Request) -> Response:
    """The text anew. 204 while it is what the page shows already; the answer after the end asks no more."""
    log_query = query(request, LogPageQuery)
    try:
        context = _context(request, log_query)
    except NotFound:
        return reload_page()
    return fragment(request, "training/_log_live.html", context)


def _context(request: Request, log_query: LogPageQuery) -> dict[str, Any]:
    tasks, user = training_of(request).tasks, user_of(request)
    view = tasks.get(user, request.path_params["task_id"])
    number = log_query.attempt or view.task.latest_attempt_no
    shown, missing = None, None
    try:
        shown = tasks.log(
            user, view.task.task_id, attempt_no=log_query.attempt, tail=log_query.tail, lines=log_query.lines
        )
    except LogMissing as error:
        missing = error
    return {
        "view": view,
        "task": view.task,
        "query": log_query,
        "usual": LogPageQuery(),
        "page": f"/ui/tasks/{view.task.task_id}/logs",
        "tails": TAILS,
        "number": number,
        "log": shown,
        "log_markup": log_markup,
        "processes": _processes(shown, log_query.process),
        "missing": missing,
        "may_grow": not view.task.is_terminal,
        "download": _download(view, number) if shown else "",
        "seen": _version(view, shown),
    }


def _processes(shown: LogView | None, chosen: str) -> list[str]:
    """Those to choose from, with the one that is chosen."""
    processes = [*shown.processes] if shown else []
    return processes if not chosen or chosen in processes else [chosen, *processes]


def _version(view: TaskView, shown: LogView | None) -> str:
    size = shown.size_bytes if shown else "none"
    return f"{size}-{len(view.attempts)}-{'ended' if view.task.is_terminal else 'open'}"


def _download(view: TaskView, number: int) -> str:
    """The whole copy, where the user's files are served. "" once its folder is gone."""
    folder = view.folders.get(number)
    if folder is None or not folder.path:
        return ""
    return "/ui/data/download?" + urlencode({"path": f"{folder.path}/{LOG_FILE}"})


ROUTES = [
    Route("/ui/tasks/{task_id}/logs", log),
    Route("/ui/tasks/{task_id}/logs/live", live),
]
