"""The page of a new job: by a form that builds the DAG, or as the JSON body of the requirement.

Both ways are one form with one body behind it: what is previewed is what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import FORM, Draft, action_of, as_form, with_retry
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.model.constraint import LEVELS
from app.video.model.job import RestartPolicy, VideoJob
from app.video.model.kinds import GENERATORS, StageKind
from app.video.pages import job_document, new_form
from app.video.pages.job_list import url_of
from app.video.pages.new_form import JobForm
from app.video.scheduling.registry import policies
from app.video.service import NodeVideos

JSON = "json"
JobDraft = Draft[JobForm]


def new(request: Request) -> Response:
    """?node, ?video: chosen already. ?from: a job that is to be run again. ?way: form (the first), json. Fields of the
    form, as ?stages or ?mode, are filled in."""
    given = dict(request.query_params)
    kinds = kinds_of(request)
    given = {"realtime": "on", "video": "" if "node" in given else only_video(request), **given}
    sent: Mapping[str, str] | None = given
    if "from" in given:
        body = body_of_job(video_of(request).jobs.get(user_of(request), given["from"]))
        sent = new_form.fields_of(body)
        if sent is None:
            form = new_form.read_form({}, kinds)
            return _render_page(request, JobDraft(JSON, form, job_document.to_text(body)))
    elif "node" in given:
        sent = {**given, "video": f"{given['node']}/{given['video']}"}
    form = new_form.read_form({key: value for key, value in (sent or {}).items() if key != "action"}, kinds)
    mode = JSON if given.get("way") == JSON else FORM
    return _render_page(request, JobDraft(mode, form, job_document.to_text(new_form.body_of(form))))


@with_fields(job_document.MAX_JSON, "A job")
def preview(request: Request, sent: Mapping[str, str]) -> Response:
    """The part of the page below the choice of stages: their wires, and the body as it would be sent."""
    kinds = kinds_of(request)
    draft = _read_draft(sent, kinds)
    return render(request, "video/_new_preview.html", draft=draft, missing=new_form.problems_of(draft.values, kinds))


def nodes_of(request: Request) -> list[NodeVideos]:
    """With videos that the user may use."""
    return video_of(request).resources.videos(user_of(request), now())


def only_video(request: Request) -> str:
    """As the form names it, where there is no choice; else empty."""
    videos = [f"{node.node}/{video}" for node in nodes_of(request) for video in node.videos]
    return videos[0] if len(videos) == 1 else ""


def kinds_of(request: Request) -> dict[str, StageKind]:
    """By stage of the catalog. One whose program is not installed is omitted."""
    return video_of(request).catalogue.kinds_of_stages(user_of(request))


def body_of_job(job: VideoJob) -> JsonObject:
    return {
        **({"name": job.name} if job.name else {}),
        "node_addr": job.node,
        "video_id": job.video_id,
        "dag": job.dag.to_json(),
        "user_constraint": job.constraint.to_json(),
        "policy": job.policy,
        "restart_policy": job.restart_policy.value,
        "realtime": job.realtime,
        "mode": job.mode.value,
    }


def _read_draft(sent: Mapping[str, str], kinds: Mapping[str, StageKind]) -> JobDraft:
    form = new_form.read_form(sent, kinds)
    if sent.get("way") == JSON:
        return JobDraft(JSON, form, sent.get("text", ""))
    return JobDraft(FORM, form, job_document.to_text(new_form.body_of(form)), new_form.problems_of(form, kinds))


@with_fields(job_document.MAX_JSON, "A job")
def create(request: Request, sent: Mapping[str, str]) -> Response:
    draft = _read_draft(sent, kinds_of(request))
    action, argument = action_of(sent)
    if action == "way":
        return _render_page(request, _switch(request, draft, argument))
    if action != "submit":
        return _render_page(request, replace(draft, problems={}))
    if draft.problems:
        return _render_page(request, draft, 422)
    return _answer_submitted(request, draft)


def _answer_submitted(request: Request, draft: JobDraft) -> Response:
    try:
        submission = job_document.submission_of(job_document.parse_body(draft.text))
    except ValueError as error:
        return _render_page(request, replace(draft, problems={"text": str(error)}), 422)
    try:
        job = video_of(request).jobs.submit(user_of(request), submission, now=now())
    except ModelmillError as error:
        field_ = "text" if draft.mode == JSON else new_form.FIELD_OF.get(error.code, "")
        return _render_page(request, replace(draft, error=error, problems={field_: error}), error.status)
    return see_other(url_of(job.uid, "?note=submitted"))


def _switch(request: Request, draft: JobDraft, mode: str) -> JobDraft:
    """The same job the other way; stays where it is if that would lose something."""
    if mode == JSON:
        return replace(draft, mode=JSON, problems={})
    try:
        fields = new_form.fields_of(job_document.parse_body(draft.text))
    except ValueError as error:
        return replace(draft, problems={"text": str(error)})
    form = None if fields is None else new_form.read_form(fields, kinds_of(request))
    return as_form(draft, form, is_document=True)


def _render_page(request: Request, draft: JobDraft, status: int = 200) -> Response:
    kinds = kinds_of(request)
    page = render(
        request,
        "video/new.html",
        status,
        area="video",
        draft=draft,
        nodes=nodes_of(request),
        policies=policies(),
        restart_policies=[one.value for one in RestartPolicy],
        levels=LEVELS,
        generators=GENERATORS,
        kinds=kinds,
        missing=new_form.problems_of(draft.values, kinds),
        has_example=bool(new_form.example_of(kinds)),
        defaults=new_form.DEFAULTS,
    )
    return with_retry(page, draft)


ROUTES = [
    Route("/ui/video/new", new),
    Route("/ui/video/new", form_once(create), methods=["POST"]),
    Route("/ui/video/new/preview", preview, methods=["POST"]),
]
