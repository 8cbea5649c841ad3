"""The JSON API of training: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now, to_text
from app.kit.errors import Forbidden
from app.kit.web.auth import caller_of, user_of
from app.kit.web.downloads import CSV, text_file
from app.kit.web.http import json_answer
from app.kit.web.idempotency import HEADER, SCHEMA
from app.kit.web.operations import OpenApiSchema, Operations
from app.kit.web.request_body import read_whole_body
from app.training import cluster_schemas, responses, schemas
from app.training.access import training_of
from app.training.responses import TASKS
from app.training.service import LineFilter
from app.training.service.checkpoints import ranking_of
from app.training.spec import MAX_SPEC_BYTES, TaskSpec, read_spec
from app.training.spec.changes import differences
from app.training.store import TaskFilter

YAML = "application/yaml"
EVERYBODY = "*"
NO_STORE = {"Cache-Control": "no-store"}


def body_of(spec: type[BaseModel]) -> OpenApiSchema:
    """A body that is YAML, or JSON with the fields of a specification."""
    content = {YAML: {"schema": {"type": "string"}}, "application/json": {"schema": spec}}
    return {"required": True, "content": content}


_LOG_HEADERS = {
    "X-Log-Attempt": "number of the attempt",
    "X-Log-Lines": "how many lines these are",
    "X-Log-Size": "bytes of the whole log, as far as it was copied",
    "X-Log-Whole": "true when that is all of it",
    "X-Log-Cut": "true when its beginning was dropped, for it was longer than the installation keeps",
}
OPERATIONS = Operations()


@OPERATIONS.post(
    TASKS,
    "Submit a training task; a repeated Idempotency-Key returns the first task",
    {200: schemas.TaskAnswer, 201: schemas.TaskAnswer},
    more_errors=(409,),
    body=body_of(TaskSpec),
    sent_headers={HEADER: SCHEMA},
)
async def create_task(request: Request) -> Response:
    hint = "Put data into files and name their paths."
    body, caller = await read_whole_body(request, MAX_SPEC_BYTES, "A task", hint=hint), caller_of(request)
    tasks, user, key = training_of(request).tasks, caller.user, request.headers.get(HEADER)
    task, is_new = await run_in_threadpool(
        tasks.submit, user, body, idempotency_key=key, now=now(), is_admin=caller.is_admin
    )
    view = await run_in_threadpool(tasks.get, user, task.task_id)
    return json_answer(responses.describe_task(view), 201 if is_new else 200, {"Location": f"{TASKS}/{task.task_id}"})


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/again",
    "Submit a task again, with other values of its fields or from one of its checkpoints",
    {200: schemas.TaskAgainAnswer, 201: schemas.TaskAgainAnswer},
    more_errors=(403, 409),
    sent_headers={HEADER: SCHEMA},
)
def submit_again(request: Request, task_id: str, body: schemas.TaskAgain) -> Response:
    caller, training = caller_of(request), training_of(request)
    user = caller.user
    text = training.resubmission.text(user, task_id, body.set, body.resume)
    task, is_new = training.tasks.submit(
        user, text.encode(), idempotency_key=request.headers.get(HEADER), now=now(), is_admin=caller.is_admin
    )
    changes = differences([training.resubmission.spec(user, task_id), read_spec(text.encode())[0]])
    place = {"Location": f"{TASKS}/{task.task_id}"}
    return json_answer(
        responses.describe_resubmission(training.tasks.get(user, task.task_id), changes), 201 if is_new else 200, place
    )


@OPERATIONS.get(
    TASKS,
    "List my training tasks, newest first; administrators also those of others",
    schemas.TasksAnswer,
    more_errors=(403,),
)
def list_tasks(request: Request, params: schemas.TaskQuery) -> Response:
    filters = TaskFilter(
        states=None if params.state is None else (params.state,),
        workload=params.workload,
        since=to_text(params.since) if params.since else None,
        until=to_text(params.until) if params.until else None,
        text=params.q,
    )
    tasks, owner = training_of(request).tasks, _choose_owner(request, params.user)
    views, cursor = tasks.page(owner, filters, cursor=params.cursor, limit=params.limit)
    return json_answer(schemas.TasksAnswer(tasks=[responses.summary(view) for view in views], next_cursor=cursor))


@OPERATIONS.get(
    f"{TASKS}/{{task_id}}",
    "Get a task: its state, why it waits, its attempts and its files",
    schemas.TaskAnswer,
    version_fields=("state", "priority", "created_at"),
)
def get_task(request: Request, task_id: str) -> Response:
    return json_answer(responses.describe_task(training_of(request).tasks.get(user_of(request), task_id)))


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/cancel",
    "Cancel a task: at once if it waits, otherwise within seconds; administrators also tasks of others",
    {202: schemas.TaskAnswer},
    more_errors=(409,),
)
def cancel_task(request: Request, task_id: str) -> Response:
    tasks, caller = training_of(request).tasks, caller_of(request)
    task = tasks.changes.cancel(caller.user, task_id, now=now(), is_admin=caller.is_admin)
    return json_answer(responses.describe_task(tasks.get(task.user, task.task_id)), 202)


@OPERATIONS.patch(
    f"{TASKS}/{{task_id}}",
    "Change the priority of a waiting task; administrators also for tasks of others",
    schemas.TaskAnswer,
    more_errors=(409,),
)
def change_task(request: Request, task_id: str, body: schemas.TaskChange) -> Response:
    tasks, caller = training_of(request).tasks, caller_of(request)
    task = tasks.changes.set_priority(caller.user, task_id, body.priority, now=now(), is_admin=caller.is_admin)
    return json_answer(responses.describe_task(tasks.get(task.user, task_id)))


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/release",
    "Release a task that has been in cancellation for ten minutes without an answer from Ray",
    schemas.TaskAnswer,
    more_errors=(409,),
)
def release_task(request: Request, task_id: str) -> Response:
    tasks, caller = training_of(request).tasks, caller_of(request)
    task = tasks.changes.release(caller.user, task_id, now=now(), is_admin=caller.is_admin)
    return json_answer(responses.describe_task(tasks.get(task.user, task_id)))


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/stacks",
    "Get the call stacks of the driver and actors of a running task; administrators also for tasks of others",
    schemas.StacksAnswer,
    more_errors=(409,),
)
def task_stacks(request: Request, task_id: str) -> Response:
    training, caller = training_of(request), caller_of(request)
    stacks = responses.stacks(training.stacks(caller.user, task_id, is_admin=caller.is_admin))
    return json_answer(stacks, headers=NO_STORE)


@OPERATIONS.get(
    f"{TASKS}/{{task_id}}/logs",
    "Get the last lines of the log of an attempt, optionally only those with a text or of a process",
    ("text/plain",),
    more_errors=(403,),
    headers=_LOG_HEADERS,
)
def task_logs(request: Request, task_id: str, params: schemas.LogQuery) -> Response:
    log = training_of(request).tasks.log(
        user_of(request),
        task_id,
        attempt_no=params.attempt,
        tail=params.tail,
        lines=LineFilter(params.q, params.process),
    )
    headers = {
        "X-Log-Attempt": str(log.attempt.attempt_no),
        "X-Log-Lines": str(log.lines),
        "X-Log-Size": str(log.size_bytes),
        "X-Log-Whole": "true" if log.is_whole else "false",
        "X-Log-Cut": "true" if log.is_cut else "false",
        **NO_STORE,
    }
    return Response(log.data, media_type="text/plain; charset=utf-8", headers=headers)


@OPERATIONS.get(f"{TASKS}/{{task_id}}/checkpoints", "List the checkpoints of a task", schemas.CheckpointsAnswer)
def task_checkpoints(request: Request, task_id: str) -> Response:
    training, user = training_of(request), user_of(request)
    view, checkpoints = training.tasks.get(user, task_id), training.tasks.checkpoints(user, task_id)
    ranking = ranking_of(view.task, [one.step for one in checkpoints], training.curves.read(view).curves)
    return json_answer(responses.checkpoints(checkpoints, ranking))


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/export",
    "Export a checkpoint as a model: a task writes Hugging Face safetensors to models/ of the data home",
    {201: schemas.TaskAnswer},
    more_errors=(403, 409),
)
def export_checkpoint(request: Request, task_id: str, body: schemas.NewExport) -> Response:
    caller, training = caller_of(request), training_of(request)
    task = training.exports.export(
        caller.user, task_id, body.checkpoint, to_onnx=body.onnx, now=now(), is_admin=caller.is_admin
    )
    view = training.tasks.get(caller.user, task.task_id)
    return json_answer(responses.describe_task(view), 201, {"Location": f"{TASKS}/{task.task_id}"})


@OPERATIONS.get(f"{TASKS}/{{task_id}}/metrics", "Get the learning curves of a task", schemas.MetricsAnswer)
def task_metrics(request: Request, task_id: str, params: schemas.MetricsQuery) -> Response:
    training = training_of(request)
    curves = training.curves.read(training.tasks.get(user_of(request), task_id))
    names = [name for name in params.name.split(",") if name]
    return json_answer(responses.metrics(curves, names, params.points), headers=NO_STORE)


@OPERATIONS.get(
    f"{TASKS}/{{task_id}}/metrics.csv",
    "Get the learning curves of a task as CSV: every point of every series",
    ("text/csv",),
)
def task_metrics_csv(request: Request, task_id: str) -> Response:
    training = training_of(request)
    view = training.tasks.get(user_of(request), task_id)
    return text_file(responses.metrics_csv(training.curves.read(view)), f"{view.task.task_id}-metrics.csv", CSV)


@OPERATIONS.get(f"{TASKS}/{{task_id}}/events", "List the events of a task", schemas.EventsAnswer)
def task_events(request: Request, task_id: str, params: schemas.EventQuery) -> Response:
    events = training_of(request).tasks.events(user_of(request), task_id, after=params.after)
    return json_answer(schemas.EventsAnswer(events=[responses.event(event) for event in events]))


@OPERATIONS.get(f"{TASKS}/{{task_id}}/spec", "Get the task as it was submitted", (YAML,))
def task_spec(request: Request, task_id: str) -> Response:
    """Byte for byte as it was sent, whatever it was sent as: JSON is YAML, too."""
    task = training_of(request).tasks.get(user_of(request), task_id).task
    return Response(task.spec_text.encode(), media_type=YAML)


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/convert",
    "Convert a model of a task",
    {201: schemas.ConversionAnswer},
    more_errors=(403, 409, 507),
)
def convert_result(request: Request, task_id: str, body: schemas.NewConversion) -> Response:
    conversion = training_of(request).results.convert(
        user_of(request),
        task_id,
        artifact=body.artifact,
        images=body.images,
        name=body.name,
        options=body.options,
        now=now(),
    )
    return json_answer(responses.conversion(conversion), 201, {"Location": f"/jobs/{conversion.job_id}"})


@OPERATIONS.post(
    f"{TASKS}/{{task_id}}/models",
    "Add a model of a task to the model registry",
    {201: schemas.TaskModelAnswer},
    more_errors=(403, 409, 507),
)
def register_result(request: Request, task_id: str, body: schemas.NewTaskModel) -> Response:
    model = training_of(request).results.register(
        user_of(request), task_id, artifact=body.artifact, name=body.name, is_next=body.new_version, note=body.note
    )
    answer = responses.task_model(model)
    return json_answer(answer, 201, {"Location": answer.model})


@OPERATIONS.get(
    "/api/v2/cluster", "Get the nodes of the cluster, and the GPUs that tasks hold", cluster_schemas.ClusterAnswer
)
def get_cluster(request: Request) -> Response:
    """As the scheduler last saw it, with the further clusters."""
    training, caller = training_of(request), caller_of(request)
    options = training.options
    views = {options.shown(name): view for name, view in training.picture.all().items()} if options.is_on else {}
    return json_answer(responses.cluster(views, caller.user, is_on=options.is_on, is_admin=caller.is_admin))


def _choose_owner(request: Request, user: str | None) -> str | None:
    """Whose tasks are listed; None: everybody's, which only administrators may see."""
    caller = caller_of(request)
    if user is None or user == caller.user:
        return caller.user
    if not caller.is_admin:
        raise Forbidden("Only administrators list tasks of others.", hint="Leave out user.")
    return None if user == EVERYBODY else user
