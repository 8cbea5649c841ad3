"""The JSON API of sweeps of tasks."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.web.auth import caller_of, user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.request_body import read_whole_body
from app.training import responses, sweep_schemas
from app.training.access import training_of
from app.training.api import body_of
from app.training.responses import SWEEPS
from app.training.spec import MAX_SPEC_BYTES

OPERATIONS = Operations()


@OPERATIONS.post(
    SWEEPS,
    "Submit a sweep of tasks: a task, and `vary` with the values of its fields",
    {201: sweep_schemas.SweepAnswer},
    body=body_of(sweep_schemas.NewTaskSweep),
)
async def create_task_sweep(request: Request) -> Response:
    body, caller = await read_whole_body(request, MAX_SPEC_BYTES, "A sweep"), caller_of(request)
    view = await run_in_threadpool(
        training_of(request).sweeps.submit, caller.user, body, now=now(), is_admin=caller.is_admin
    )
    return json_answer(responses.sweep(view), 201, {"Location": f"{SWEEPS}/{view.sweep_id}"})


@OPERATIONS.post(
    f"{SWEEPS}/{{task_sweep_id}}/again",
    "Start a sweep of tasks again, with other values of its fields",
    {201: sweep_schemas.SweepAgainAnswer},
    more_errors=(403, 409),
)
def submit_task_sweep_again(request: Request, task_sweep_id: str, body: sweep_schemas.SweepAgain) -> Response:
    caller, sweeps = caller_of(request), training_of(request).sweeps
    view, changes = sweeps.resubmit(caller.user, task_sweep_id, body.set, now=now(), is_admin=caller.is_admin)
    return json_answer(responses.describe_sweep_again(view, changes), 201, {"Location": f"{SWEEPS}/{view.sweep_id}"})


@OPERATIONS.get(SWEEPS, "List the last sweeps of tasks, newest first", sweep_schemas.SweepsAnswer)
def list_task_sweeps(request: Request) -> Response:
    views = training_of(request).sweeps.views(user_of(request))
    return json_answer(sweep_schemas.SweepsAnswer(sweeps=[responses.sweep(view) for view in views]))


@OPERATIONS.get(
    f"{SWEEPS}/{{task_sweep_id}}",
    "Get a sweep of tasks: its tasks, their values, and the best task by its metric",
    sweep_schemas.SweepAnswer,
)
def get_task_sweep(request: Request, task_sweep_id: str) -> Response:
    return json_answer(responses.sweep(training_of(request).sweeps.view(user_of(request), task_sweep_id)))


@OPERATIONS.post(
    f"{SWEEPS}/{{task_sweep_id}}/cancel", "Cancel a sweep and its unfinished tasks", {202: sweep_schemas.SweepAnswer}
)
def cancel_task_sweep(request: Request, task_sweep_id: str) -> Response:
    sweeps = training_of(request).sweeps
    return json_answer(responses.sweep(sweeps.cancel(user_of(request), task_sweep_id, now=now())), 202)
