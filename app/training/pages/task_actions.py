"""What can be done with a task: cancel it, let it go, send what it left to conversion. By plain forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import retry_after
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.errors import TaskFinished, TaskNotFound
from app.training.pages.task import live_context


class ConvertForm(BaseModel):
    """What is converted."""

    artifact: Annotated[str, Field(min_length=1, max_length=4096)]
    """A path in the folder of the last attempt."""
    images: Annotated[str, Field(max_length=4096)] = ""
    """A path in the home or the common folder."""


class ModelForm(BaseModel):
    """What is registered."""

    artifact: Annotated[str, Field(min_length=1, max_length=4096)]
    """A path in the folder of the last attempt."""
    name: Annotated[str, Field(max_length=200)] = ""
    """Of the model."""
    new_version: str = ""
    """Anything: the next version of a model of this name."""


class ExportForm(BaseModel):
    """Which checkpoint becomes a model."""

    step: Annotated[int, Field(ge=0)]
    onnx: str = ""
    """Anything: an ONNX as well."""


def ask_cancel(request: Request) -> Response:
    view = training_of(request).tasks.get(user_of(request), request.path_params["task_id"])
    if view.task.is_terminal:
        return see_other(f"/ui/tasks/{view.task.task_id}?note=too-late")
    return render(request, "training/cancel.html", area="tasks", task=view.task)


def cancel(request: Request) -> Response:
    """A task that ended before the click arrived needs no cancelling: its page says how it ended."""
    return _answer_ended(request, training_of(request).tasks.changes.cancel)


def ask_release(request: Request) -> Response:
    view = training_of(request).tasks.get(user_of(request), request.path_params["task_id"])
    if not view.task.is_releasable(now()):
        return see_other(f"/ui/tasks/{view.task.task_id}")
    return render(request, "training/release.html", area="tasks", task=view.task)


def release(request: Request) -> Response:
    """What is being cancelled is waited for no longer."""
    return _answer_ended(request, training_of(request).tasks.changes.release)


def _answer_ended(request: Request, change: Callable[..., object]) -> Response:
    task_id = request.path_params["task_id"]
    try:
        change(user_of(request), task_id, now=now())
    except TaskFinished:
        return see_other(f"/ui/tasks/{task_id}?note=too-late")
    return see_other(f"/ui/tasks/{task_id}?note=cancelled")


def stacks(request: Request) -> Response:
    """Each process is halted for a moment: so it is asked for by a button."""
    training, caller, task_id = training_of(request), caller_of(request), request.path_params["task_id"]
    task, _ = training.tasks.latest(caller.user, task_id, is_admin=caller.is_admin)
    stacks = training.stacks(caller.user, task_id, is_admin=caller.is_admin)
    return render(request, "training/stacks.html", area="tasks", task=task, stacks=stacks)


@with_form(ConvertForm)
def convert(request: Request, fields: ConvertForm) -> Response:
    """One click. What is wrong is said beside the button, and what was typed is kept."""
    task_id = request.path_params["task_id"]
    try:
        training_of(request).results.convert(
            user_of(request), task_id, artifact=fields.artifact, images=fields.images.strip(), now=now()
        )
    except TaskNotFound:
        raise
    except ModelmillError as error:
        return _answer_refused(request, fields, problem=error)
    return see_other(f"/ui/tasks/{task_id}?note=converting")


def _answer_refused(request: Request, fields: BaseModel, **problem: ModelmillError) -> Response:
    """The page of the task, with what is wrong beside the button and what was typed."""
    (error,) = problem.values()
    context = live_context(request) | {"note": "", "given": fields.model_dump(), **problem}
    response = render(request, "training/task.html", error.status, area="tasks", **context)
    response.headers.update(retry_after(error))
    return response


@with_form(ModelForm)
def register(request: Request, fields: ModelForm) -> Response:
    """One click, too. Shows the model."""
    task_id = request.path_params["task_id"]
    try:
        model = training_of(request).results.register(
            user_of(request),
            task_id,
            artifact=fields.artifact,
            name=fields.name.strip(),
            is_next=bool(fields.new_version),
        )
    except TaskNotFound:
        raise
    except ModelmillError as error:
        return _answer_refused(request, fields, not_registered=error)
    return see_other("/ui/models/named?" + urlencode({"name": f"{model.name}@{model.version}", "note": "added"}))


@with_form(ExportForm)
def export(request: Request, fields: ExportForm) -> Response:
    """A task of its own; what is wrong is said on the page of this one."""
    training, caller = training_of(request), caller_of(request)
    task = training.exports.export(
        caller.user,
        request.path_params["task_id"],
        fields.step,
        to_onnx=bool(fields.onnx),
        now=now(),
        is_admin=caller.is_admin,
    )
    return see_other(f"/ui/tasks/{task.task_id}?note=submitted")


ROUTES = [
    Route("/ui/tasks/{task_id}/cancel", ask_cancel),
    Route("/ui/tasks/{task_id}/cancel", cancel, methods=["POST"]),
    Route("/ui/tasks/{task_id}/release", ask_release),
    Route("/ui/tasks/{task_id}/release", release, methods=["POST"]),
    Route("/ui/tasks/{task_id}/stacks", stacks, methods=["POST"]),
    Route("/ui/tasks/{task_id}/convert", convert, methods=["POST"]),
    Route("/ui/tasks/{task_id}/models", form_once(register), methods=["POST"]),
    Route("/ui/tasks/{task_id}/export", form_once(export), methods=["POST"]),
]
