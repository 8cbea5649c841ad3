"""The log of an attempt: its last lines, renewed while it runs. Works by links alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import urlencode

from markupsafe import Markup, escape
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.list_page import ViewQuery
from app.kit.web.live_fragment import fragment, reloads_when_gone
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.errors import LogMissing
from app.training.model.log_excerpt import CONTROLS, ESCAPE
from app.training.service import LineFilter, LogView, TaskView

TAILS = (200, 1000, 2000, 5000)
USUAL_TAIL = 2000
LOG_FILE = "driver.log"


class LogPageQuery(ViewQuery):
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

    @property
    def lines(self) -> LineFilter:
        return LineFilter(self.q.strip(), self.process)


def log(request: Request) -> Response:
    return render(request, "training/log.html", area="tasks", **_build_context(request, query(request, LogPageQuery)))


@reloads_when_gone
def live(request: Request) -> Response:
    """The text again. 204 while it is what the page shows already; the answer after the end asks no more."""
    log_query = query(request, LogPageQuery)
    context = _build_context(request, log_query)
    return fragment(request, "training/_log_live.html", context)


def _build_context(request: Request, log_query: LogPageQuery) -> TemplateContext:
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
        "processes": _list_processes(shown, log_query.process),
        "missing": missing,
        "may_grow": not view.task.is_terminal,
        "download": _download(view, number) if shown else "",
        "seen": _digest_version(view, shown),
    }


def _list_processes(shown: LogView | None, chosen: str) -> list[str]:
    """Those to choose from, with the one that is chosen."""
    processes = [*shown.processes] if shown else []
    return processes if not chosen or chosen in processes else [chosen, *processes]


def _digest_version(view: TaskView, shown: LogView | None) -> str:
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


STYLE = re.compile(r"\x1b\[([0-9;]{0,99})m")
BOLD, NOT_BOLD, USUAL_COLOR = 1, 22, 39
COLORS = {**{code: code - 30 for code in range(31, 37)}, **{code: code - 90 for code in range(91, 97)}}
"""Red, green, yellow, blue, magenta and cyan, as the style sheet numbers them; black and white are the page's own."""
WIDE = {38: {5: 2, 2: 4}, 48: {5: 2, 2: 4}}
"""Of colors by number or by red, green and blue, which are not shown: how many numbers follow each."""


def log_markup(log: str, marked: str = "") -> Markup:
    """A log as HTML.

    Args:
        marked: what is marked in it, in small or capital letters.
    """
    text = "\n".join(map(_keep_last_state, log.split("\n")))
    return Markup("").join(_split_into_pieces(text, marked))


def _split_into_pieces(text: str, marked: str) -> Iterator[Markup]:
    color, is_bold = 0, False
    first, *rest = STYLE.split(text)
    yield _mark(first, marked)
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        color, is_bold = _read_style(codes, color, is_bold=is_bold)
        names = [name for name, holds in ((f"ansi-{color}", color), ("ansi-bold", is_bold)) if holds]
        shown = _mark(piece, marked)
        yield Markup('<span class="{}">{}</span>').format(" ".join(names), shown) if names and shown else shown


def _read_style(codes: str, color: int, *, is_bold: bool) -> tuple[int, bool]:
    """The style after what a sequence says; what it says of grounds, lines and the like is omitted."""
    numbers = [int(code or 0) for code in codes.split(";") if len(code) < 4]
    while numbers:
        code = numbers.pop(0)
        if code in WIDE:
            del numbers[: WIDE[code].get(numbers[0], 1) if numbers else 0]
        elif code == 0:
            color, is_bold = 0, False
        elif code in (BOLD, NOT_BOLD):
            is_bold = code == BOLD
        elif code == USUAL_COLOR or code in COLORS:
            color = COLORS.get(code, 0)
    return color, is_bold


def _mark(text: str, marked: str) -> Markup:
    plain = CONTROLS.sub("", ESCAPE.sub("", text))
    if not marked:
        return escape(plain)
    parts = re.split(f"({re.escape(marked)})", plain, flags=re.IGNORECASE)
    return Markup("").join(Markup("<mark>{}</mark>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _keep_last_state(line: str) -> str:
    """A program that draws a progress bar goes back to the beginning of the line for each of its states."""
    states = [state for state in line.split("\r") if ESCAPE.sub("", state)]
    return states[-1] if states else ""
