"""The catalog of stages: what there is, what it was measured at, and, for administrators, changes."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.access import EVERYBODY, AccessRule, read_typed
from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import Problems
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.model_registry.access import models_of
from app.video.access import measurements_of, require_admin, video_of
from app.video.errors import StageNotFound
from app.video.model.dag_inputs import order_stages
from app.video.model.job import Mode
from app.video.model.kinds import SINGLE_FRAME, StageSpec
from app.video.pages import job_document, new_form
from app.video.pages.job_list import url_of
from app.video.pages.new import kinds_of, nodes_of

MAX_BYTES = 20_000
SUGGESTED = 200
"""Models that a field offers."""
SHOWN_MEASUREMENTS = 400
SIZES = ("big", "middle", "small")
EMPTY = {"name": "", "kind": "", "big": "", "middle": "", "small": "", "parameters": "", "allowed": EVERYBODY.text}


def stages(request: Request) -> Response:
    """?edit: a stage whose values the form holds."""
    edit = request.query_params.get("edit", "")
    catalogue = video_of(request).catalogue
    specs = (listed.spec for listed in catalogue.seen_by(user_of(request)))
    edited = next((spec for spec in specs if spec.name == edit), None)
    return _render_page(request, values_of(edited, catalogue.allowed(edited.name)) if edited else dict(EMPTY))


@with_fields(MAX_BYTES, "A stage")
def put(request: Request, sent: dict[str, str]) -> Response:
    require_admin(request)
    values = {name: sent.get(name, "").strip().replace("\r\n", "\n") for name in EMPTY}
    try:
        spec = spec_of(values)
    except ValueError as error:
        return _render_page(request, values, {"parameters": str(error)}, 422)
    missing: Problems = {name: "" for name in ("name", "kind") if not values[name]}
    if missing:
        return _render_page(request, values, missing, 422)
    try:
        allowed = read_typed(values["allowed"])
        video_of(request).catalogue.put(user_of(request), spec, now=now())
        if "allowed" in sent:
            video_of(request).catalogue.permit(spec.name, allowed, by=user_of(request))
    except ModelmillError as error:
        return _render_page(request, values, {"": error}, error.status)
    return see_other(f"/ui/video/stages?{urlencode({'note': 'put', 'stage': spec.name})}")


def spec_of(values: Mapping[str, str]) -> StageSpec:
    """Returns the stage of a form.

    Raises:
        ValueError: A line of its parameters is not key=value.
    """
    sizes = [tuple(part.strip() for part in values[size].split(",") if part.strip()) for size in SIZES]
    while sizes and not sizes[-1]:
        sizes.pop()
    parameters = {}
    for line in filter(str.strip, values["parameters"].split("\n")):
        key, is_pair, value = (part.strip() for part in line.partition("="))
        if not is_pair or not key:
            raise ValueError(line.strip())
        parameters[key] = value
    return StageSpec(values["name"], values["kind"], tuple(sizes), parameters)


def values_of(spec: StageSpec, allowed: AccessRule) -> dict[str, str]:
    sizes = dict(zip(SIZES, (", ".join(names) for names in spec.models), strict=False))
    lines = "\n".join(f"{key}={value}" for key, value in spec.parameters.items())
    return {**EMPTY, "name": spec.name, "kind": spec.kind, **sizes, "parameters": lines, "allowed": allowed.text}


def ask_remove(request: Request) -> Response:
    require_admin(request)
    return _remove_page(request, None)


def remove(request: Request) -> Response:
    require_admin(request)
    try:
        video_of(request).catalogue.remove(request.path_params["name"])
    except NotFound:
        raise
    except ModelmillError as error:
        return _remove_page(request, error)
    return see_other("/ui/video/stages?note=removed")


def _remove_page(request: Request, error: ModelmillError | None) -> Response:
    name = request.path_params["name"]
    if name not in {listed.spec.name for listed in video_of(request).catalogue.all()}:
        raise StageNotFound(f"There is no stage {name!r}.")
    return render(request, "video/stage_remove.html", area="video", name=name, error=error)


@with_fields(MAX_BYTES, "A choice")
def measure(request: Request, sent: dict[str, str]) -> Response:
    """A job that measures these stages. What the form cannot wire alone goes on at the page of a new job."""
    kinds = kinds_of(request)
    names = [name.removeprefix("stage.") for name in sent if name.startswith("stage.")]
    in_order = order_stages(SINGLE_FRAME.name, names, kinds)
    fields = {
        "video": sent.get("video", ""),
        "stages": ",".join(in_order),
        "mode": Mode.PROFILE.value,
        "realtime": "on",
    }
    form = new_form.read_form(fields, kinds)
    if not new_form.problems_of(form, kinds):
        try:
            submission = job_document.submission_of(new_form.body_of(form))
            made = video_of(request).jobs.submit(user_of(request), submission, now=now())
        except (ValueError, ModelmillError):
            return see_other(f"/ui/video/new?{urlencode(fields)}")
        return see_other(url_of(made.uid, "?note=measuring"))
    return see_other(f"/ui/video/new?{urlencode(fields)}")


def _render_page(
    request: Request, values: Mapping[str, str], problems: Problems | None = None, status: int = 200
) -> Response:
    video = video_of(request)
    measured = measurements_of(request)
    return render(
        request,
        "video/stages.html",
        status,
        area="video",
        listed=video.catalogue.seen_by(user_of(request)),
        kinds=video.catalogue.kinds(),
        values=values,
        problems=problems or {},
        is_admin=caller_of(request).is_admin,
        sizes=SIZES,
        models=models_of(request).suggestions(user_of(request), most=SUGGESTED),
        note=request.query_params.get("note", ""),
        stage=request.query_params.get("stage", ""),
        measured=measured[:SHOWN_MEASUREMENTS],
        measured_further=max(0, len(measured) - SHOWN_MEASUREMENTS),
        nodes=nodes_of(request),
        wirable=kinds_of(request),
        is_edit="edit" in request.query_params,
    )


ROUTES = [
    Route("/ui/video/stages", stages),
    Route("/ui/video/stages", put, methods=["POST"]),
    Route("/ui/video/stages/measure", measure, methods=["POST"]),
    Route("/ui/video/stages/{name}/remove", ask_remove),
    Route("/ui/video/stages/{name}/remove", remove, methods=["POST"]),
]
