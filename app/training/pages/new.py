"""The page of a new task: as YAML, or by a form that writes the YAML; looked at first, then submitted.

Both ways are one form with one text behind it: what is previewed is what is stored, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.homes.access import Home, home_of
from app.homes.home_paths import HomePath
from app.homes.model import COMMON, Kind
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import FORM, Draft, Problems, action_of, as_form, problems_of_text, with_retry
from app.kit.web.idempotency import KeyReused, form_once
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.model import Demand, Workload
from app.training.pages import new_form
from app.training.pages.examples import example
from app.training.pages.new_form import Values
from app.training.service.checkpoints import RESUME
from app.training.service.environments import Environment
from app.training.spec import MAX_SPEC_BYTES, TaskSpec
from app.training.spec.changes import Difference, document_differences, fields_of
from app.training.spec.sweeps import SweepDocument, read_sweep, read_task_or_sweep
from app.training.workloads import demand_of

YAML = "yaml"
TEMPLATES = "code/templates"
"""Folder of YAML files to begin with, in the home and in the common folder."""
SUGGESTED = 60
"""Paths that a field offers."""
KEY_MAX = 64


@dataclass(frozen=True)
class TaskDraft(Draft[Values]):
    spec: TaskSpec | None = None
    """What the text means; None if it means no task."""
    key: str = ""
    """Of the submission, lest it be made twice."""
    origin: str = ""
    """Id of the task that it was made of; "": of none."""
    origin_sweep: str = ""
    """Id of the sweep that it was made of; "": of none."""
    sweep: SweepDocument | None = None
    """The text means a sweep, and the spec its first task."""

    @property
    def workload(self) -> Workload:
        return new_form.workload_of(self.values["workload"])


def new(request: Request) -> Response:
    """?mode: form (the first), yaml. ?workload. ?from={task}: with the text of that one; &resume={step}: to go on from
    its checkpoint of that step. ?sweep={sweep}: with the text of that one. ?template: with that of a file. ?train_file:
    a file of the home."""
    params = request.query_params
    workload = new_form.workload_of(params.get("workload", ""))
    mode = YAML if params.get("mode") == YAML else FORM
    text, spec = example(workload, *_get_places(home_of(request))), None
    values = new_form.empty_values(workload)
    if params.get("train_file"):
        values["train_file"] = home_of(request).logical(params["train_file"])
    if params.get("from"):
        text = training_of(request).tasks.get(user_of(request), params["from"]).task.spec_text
        text = _resume_text(request, text, params["from"], params.get("resume", ""))
    if params.get("sweep"):
        text = training_of(request).sweeps.document(user_of(request), params["sweep"]).text
    if params.get("template"):
        text = _read_template(home_of(request), params["template"])
    sweep = None
    with suppress(ModelmillError):  # of an older version of this product: the text is shown all the same
        spec, _, sweep = read_task_or_sweep(text.encode())
    if any(params.get(name) for name in ("from", "sweep", "template")):
        fields = new_form.values_of(spec, sweep) if spec else None
        values, mode = (fields, mode) if fields else (values, YAML)
    if mode == FORM:
        spec, text, _ = new_form.spec_of(values)
    draft = TaskDraft(mode, values, text, spec=spec, key=str(uuid4()), sweep=sweep)
    return _render_page(request, replace(draft, origin=params.get("from", ""), origin_sweep=params.get("sweep", "")))


def _resume_text(request: Request, text: str, task_id: str, step: str) -> str:
    """The text of a task with the checkpoint that it is to go on from, instead of what it says of that."""
    checkpoints = training_of(request).tasks.checkpoints(user_of(request), task_id) if step else []
    path = next((one.path for one in checkpoints if str(one.step) == step), None)
    if path is None:
        return text
    kept = [line for line in text.splitlines() if not line.startswith(f"{RESUME}:")]
    return "\n".join([*kept, f"{RESUME}: {path}", ""])


async def demonstrate(request: Request) -> Response:
    """Start the smallest task; where its curve is drawn."""
    tasks, user = training_of(request).tasks, user_of(request)
    task = await run_in_threadpool(partial(tasks.demonstrate, user, now=now()))
    return see_other(f"/ui/tasks/{task.task_id}/metrics")


@with_fields(MAX_SPEC_BYTES, "A task")
def preview(request: Request, sent: Mapping[str, str]) -> Response:
    """The YAML as it would be stored, and what is wrong with it: while it is being written."""
    return render(request, "training/_spec_preview.html", **_build_context(request, _read_draft(sent)))


@with_fields(MAX_SPEC_BYTES, "A task")
def create(request: Request, sent: Mapping[str, str]) -> Response:
    draft = _read_draft(sent)
    action, argument = action_of(sent)
    if action == "mode":
        return _render_page(request, _switch(draft, argument))
    if action == "workload":
        return _render_page(request, _with_workload(draft, argument))
    if action == "preview" or draft.problems:
        return _render_page(request, draft, status=422 if draft.problems and action == "submit" else 200)
    try:
        page = _submit(request, draft)
    except ModelmillError as error:
        problems = _list_problems(error) if draft.mode == YAML else new_form.problems_of(error)
        return _render_page(request, replace(draft, error=error, problems=problems), status=error.status)
    return see_other(page)


def _submit(request: Request, draft: TaskDraft) -> str:
    """Once, however often the button was pressed; a changed text under a key that was used is another task. Returns
    its page."""
    tasks, caller, body = training_of(request).tasks, caller_of(request), draft.text.encode()
    if draft.sweep is not None:
        sweeps = training_of(request).sweeps
        return f"/ui/task-sweeps/{sweeps.submit(caller.user, body, now=now(), is_admin=caller.is_admin).sweep_id}"
    submit = partial(tasks.submit, caller.user, body, now=now(), is_admin=caller.is_admin)
    try:
        task, _ = submit(idempotency_key=draft.key or None)
    except KeyReused:
        task, _ = submit()
    return f"/ui/tasks/{task.task_id}?note=submitted"


def _read_draft(sent: Mapping[str, str]) -> TaskDraft:
    """What was sent, looked at."""
    key = sent.get("key", "")[:KEY_MAX]
    key = key if key.isascii() and key.isprintable() else ""
    origin, origin_sweep = (sent.get(name, "")[: KEY_MAX * 2] for name in ("origin", "origin_sweep"))
    return replace(_read(sent), key=key, origin=origin, origin_sweep=origin_sweep)


def _read(sent: Mapping[str, str]) -> TaskDraft:
    values = new_form.read_sent_values(sent)
    if sent.get("mode") != YAML:
        spec, text, problems = new_form.spec_of(values)
        sweep = read_sweep(text.encode()) if spec is not None and values["vary"].strip() else None
        return TaskDraft(FORM, values, text, problems, spec=spec, sweep=sweep)
    text = sent.get("text", "")
    try:
        spec, _, sweep = read_task_or_sweep(text.encode())
    except ModelmillError as error:
        return TaskDraft(YAML, values, text, _list_problems(error), error)
    return TaskDraft(YAML, values, text, spec=spec, sweep=sweep)


def _list_problems(error: ModelmillError) -> Problems:
    return problems_of_text(error, at="at", problem="problem")


def _switch(draft: TaskDraft, mode: str) -> TaskDraft:
    """The same task the other way; stays where it is if that would lose something."""
    if mode == YAML:
        return replace(draft, mode=YAML, problems={})
    values = new_form.values_of(draft.spec, draft.sweep) if draft.spec else None
    return as_form(draft, values, is_document=draft.spec is not None)


def _with_workload(draft: TaskDraft, workload: str) -> TaskDraft:
    values = {**draft.values, "workload": new_form.workload_of(workload).value}
    _, text, _ = new_form.spec_of(values)
    return replace(draft, mode=FORM, values=values, text=text, spec=None, problems={})


def _render_page(request: Request, draft: TaskDraft, status: int = 200) -> Response:
    home = home_of(request)
    own, common = _get_places(home)
    page = render(
        request,
        "training/new.html",
        status,
        area="new-task",
        workloads=list(Workload),
        paths=_collect_suggestions(home),
        templates=_list_templates(home),
        environments=_list_environments(request),
        clusters=training_of(request).options.clusters,
        accelerators=sorted({kind for node in training_of(request).picture.nodes() for kind in node.accelerators}),
        home_path=own,
        common_path=common,
        **_build_context(request, draft),
    )
    return with_retry(page, draft)


def _build_context(request: Request, draft: TaskDraft) -> TemplateContext:
    demand: Demand | None = demand_of(draft.spec) if draft.spec else None
    return {
        "draft": draft,
        "values": draft.values,
        "problems": draft.problems,
        "demand": demand,
        "changes": _find_changes(request, draft),
        "folds": new_form.folds_of(draft.values, draft.problems),
        "hidden": sorted(new_form.hidden_fields(draft.workload)),
        "is_verl": draft.workload is not Workload.SCRIPT,
    }


def _find_changes(request: Request, draft: TaskDraft) -> list[Difference] | None:
    """From the task or the sweep that the draft was made of; None: it was made of none, or is nothing yet."""
    if draft.spec is None or not (draft.origin or draft.origin_sweep):
        return None
    training, user = training_of(request), user_of(request)
    with suppress(ModelmillError):  # it is gone, or of an older version of this product
        if draft.origin:
            before = fields_of(training.resubmission.spec(user, draft.origin))
        else:
            before = training.sweeps.document(user, draft.origin_sweep).all_fields
        return document_differences([before, draft.sweep.all_fields if draft.sweep else fields_of(draft.spec)])
    return None


def _list_environments(request: Request) -> list[Environment]:
    caller = caller_of(request)
    return training_of(request).tasks.environments.seen_by(caller.user, is_admin=caller.is_admin)


def _get_places(home: Home) -> tuple[str, str]:
    return home.logical(""), f"{home.options.prefix}/{COMMON}"


def _collect_suggestions(home: Home) -> dict[str, list[str]]:
    """By kind of field, what lies at the top of the folders that it may name."""
    suggestions = {}
    for kind, places in {
        "datasets": (HomePath("datasets"), HomePath("datasets", is_common=True)),
        "models": (HomePath("models"), HomePath("models", is_common=True)),
        "code": (HomePath("code", is_common=True),),
    }.items():
        suggestions[kind] = [path for location in places for path in _iterate_paths(home, location)]
    return suggestions


def _list_templates(home: Home) -> list[str]:
    """The user's own, then those of the operator."""
    folders = (HomePath(TEMPLATES), HomePath(TEMPLATES, is_common=True))
    return [path for folder in folders for path in _iterate_paths(home, folder) if path.endswith((".yaml", ".yml"))]


def _read_template(home: Home, path: str) -> str:
    location = home.locate(path, field="template")
    return b"".join(home.tree(location).read(location.inner, end=MAX_SPEC_BYTES)).decode(errors="replace")


def _iterate_paths(home: Home, location: HomePath) -> Iterator[str]:
    with suppress(ModelmillError):  # a suggestion less
        for entry in home.tree(location).browse(location.inner, limit=SUGGESTED).entries:
            if entry.kind in (Kind.FILE, Kind.FOLDER):
                yield home.path_of(location.below(entry.name))


ROUTES = [
    Route("/ui/tasks/new", new),
    Route("/ui/tasks/new", form_once(create), methods=["POST"]),
    Route("/ui/tasks/new/preview", preview, methods=["POST"]),
    Route("/ui/tasks/demonstration", form_once(demonstrate), methods=["POST"]),
]
