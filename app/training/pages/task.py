"""The page of one task, and the fragment that keeps it current. Both render the same templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.homes.access import home_of
from app.homes.pages.urls import url_of
from app.kit.clock import from_text, now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.live_fragment import is_current, reloads_when_gone, unchanged, version_of
from app.kit.web.sse import change_stream
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.model import Conversion, State, Task, TaskEvent
from app.training.pages import view_models
from app.training.pages.log import log_markup
from app.training.pages.queue_health import QueueHealth, condition_of
from app.training.service import Checkpoint, LogView, TaskView
from app.training.service.checkpoints import ranking_of
from app.training.service.model_descriptions import ModelDescription
from app.training.service.options import TrainingOptions
from app.training.spec import TaskSpec, read_spec
from app.training.store.changes import task_key

PREVIEW_LINES = 20
SHOWN_ATTEMPTS, SHOWN_EVENTS, SHOWN_CHECKPOINTS = 12, 100, 20
"""The last ones."""
REDRAWN_S = 15
"""A fragment whose task stands still is drawn again this often, for its bars grow."""
CONVERSION_EXPECTED = timedelta(minutes=2)
"""A task is still watched this long after its end, while its conversion is being made."""


def task(request: Request) -> Response:
    return render(
        request, "training/task.html", area="tasks", note=request.query_params.get("note", ""), **live_context(request)
    )


@reloads_when_gone
def live(request: Request) -> Response:
    """What changes while a task waits and runs. 204 when that is what the page shows already (`seen`)."""
    head = _load_head(request)
    if is_current(request, head.seen):
        return unchanged()
    return render(request, "training/_task_live.html", **_build_body(request, head))


async def events(request: Request) -> Response:
    """`changed` at each change of the task."""
    view = await run_in_threadpool(training_of(request).tasks.get, user_of(request), request.path_params["task_id"])
    return change_stream(request, task_key(view.task.task_id))


def live_context(request: Request) -> TemplateContext:
    return _build_body(request, _load_head(request))


@dataclass(frozen=True)
class TaskHead:
    """What tells whether something would look different. seen: its name, equal while nothing would."""

    view: TaskView
    condition: QueueHealth
    at: datetime
    checkpoints: Sequence[Checkpoint] = ()

    @property
    def is_live(self) -> bool:
        return may_change(self.view, self.at)

    @property
    def seen(self) -> str:
        view = self.view
        attempts = [
            (it.ray_status, it.log_bytes, it.placement_pending_since, it.preempt_asked_at) for it in view.attempts
        ]
        conversions = [(it.job_id, it.problem, it.next_try_at) for it in view.conversions]
        steps = [one.step for one in self.checkpoints]
        drawn = int(self.at.timestamp() // REDRAWN_S) if self.is_live else ""
        return version_of(
            view.task.version, view.waiting, view.ahead, attempts, conversions, steps, self.condition.trouble, drawn
        )


def _load_head(request: Request) -> TaskHead:
    training = training_of(request)
    user, task_id = user_of(request), request.path_params["task_id"]
    view = training.tasks.get(user, task_id)
    return TaskHead(view, condition_of(training), now(), training.tasks.checkpoints(user, task_id))


def _build_body(request: Request, head: TaskHead) -> TemplateContext:
    view, events, page = head.view, _load_all_events(request, head.view), page_of(request)
    steps = [one.step for one in head.checkpoints]
    curves = training_of(request).curves.read(view).curves if steps else {}
    spans = view_models.spans(view.task, events, head.at)
    artifacts = sorted(view.artifacts, key=lambda path: (path.count("/"), path))
    bars = view_models.rows(view.task, view.attempts[-SHOWN_ATTEMPTS:], spans)
    return {
        "view": view,
        "task": view.task,
        "attempts": list(reversed(view.attempts))[:SHOWN_ATTEMPTS],
        "events": list(reversed(events))[:SHOWN_EVENTS],
        "condition": head.condition,
        "where": _locate(training_of(request).options, view),
        "is_followed": _is_followed(training_of(request).options, view),
        "rungs": view_models.rungs(view.task, spans),
        "rows": bars,
        "endings": {row.ending for row in bars},
        "took": view_models.took_s(view.task, head.at),
        "ran": {attempt.attempt_no: view_models.ran_s(attempt) for attempt in view.attempts},
        "log": _log(request, view),
        "log_markup": log_markup,
        "artifacts": artifacts,
        "described": _load_description(request, view, artifacts[0] if artifacts else ""),
        "is_releasable": view.task.is_releasable(head.at),
        "ranking": ranking_of(view.task, steps, curves),
        "checkpoints": list(reversed(head.checkpoints))[:SHOWN_CHECKPOINTS],
        "is_live": head.is_live,
        "seen": head.seen,
        "has_board": training_of(request).boards.folder(view) is not None,
        "page_of": page,
        "inputs": inputs_of(view.task, page),
        "given": {},
        "problem": None,
        "not_registered": None,
    }


def _locate(options: TrainingOptions, view: TaskView) -> str:
    """The name of the cluster on which its last attempt is, or a task waits; "" if there is only one."""
    if len(options.clusters) == 1:
        return ""
    placed_on = _find_cluster(view)
    return options.shown(view.task.cluster if placed_on is None else placed_on)


def _is_followed(options: TrainingOptions, view: TaskView) -> bool:
    """Whether the cluster of its attempt is in the settings. Of another the scheduler sees nothing."""
    placed_on = _find_cluster(view)
    return placed_on is None or placed_on in options.noted_clusters


def _find_cluster(view: TaskView) -> str | None:
    """The cluster of its attempt, as records name it; None while it waits."""
    return view.attempts[-1].cluster if view.attempts and not view.task.is_waiting else None


def _load_all_events(request: Request, view: TaskView) -> list[TaskEvent]:
    """A task that was tried again for a day has thousands."""
    tasks = training_of(request).tasks
    events = more = tasks.events(view.task.user, view.task.task_id)
    while more:
        more = tasks.events(view.task.user, view.task.task_id, after=events[-1].event_id)
        events = [*events, *more]
    return events


def may_change(view: TaskView, at: datetime) -> bool:
    """By itself? After the end a conversion may be on its way, which is not waited for forever."""
    task = view.task
    if task.ended_at is None:
        return True
    is_expected = any(is_being_made(one) for one in view.conversions) or (
        task.state is State.SUCCEEDED and not view.conversions and "convert" in task.spec_text
    )
    return is_expected and at - from_text(task.ended_at) < CONVERSION_EXPECTED


def is_being_made(conversion: Conversion) -> bool:
    return not conversion.job_id and (not conversion.problem or conversion.next_try_at is not None)


def _log(request: Request, view: TaskView) -> LogView | ModelmillError | None:
    """The end of the last attempt's log, or why there is none; None before the first attempt."""
    if not view.attempts:
        return None
    try:
        return training_of(request).tasks.log(view.task.user, view.task.task_id, tail=PREVIEW_LINES)
    except ModelmillError as error:
        return error


def _load_description(request: Request, view: TaskView, artifact: str) -> ModelDescription | ModelmillError | None:
    """What the task says of its model, or why that cannot be told."""
    try:
        return training_of(request).results.description(view, artifact) if artifact else None
    except ModelmillError as error:
        return error


INPUTS = ("train_file", "val_file", "model_path", "reward_model", "code_path", "resume_from")
"""Fields of a task that may name a path."""


def page_of(request: Request) -> Callable[[str], str]:
    """Maps a path, as tasks name it, to the address of its Data page; "" for what is none of this user's paths."""
    home = home_of(request)

    def page(path: str) -> str:
        with suppress(ModelmillError):
            return url_of(home.locate(path))
        return ""

    return page


def inputs_of(task: Task, page: Callable[[str], str]) -> list[tuple[str, str, str]]:
    """The field, the path and the address of each path that a task names."""
    try:
        spec: TaskSpec = read_spec(task.spec_text.encode())[0]
    except ModelmillError:  # of an older version of this product
        return []
    given = {name: getattr(spec, name) for name in INPUTS}
    if spec.convert is not None:
        given["convert.images"] = spec.convert.images
    paths = {name: path for name, path in given.items() if path and path.startswith("/")}
    return [(name, path, page(path)) for name, path in paths.items() if page(path)]


ROUTES = [
    Route("/ui/tasks/{task_id}", task),
    Route("/ui/tasks/{task_id}/live", live),
    Route("/ui/tasks/{task_id}/events", events),
]
