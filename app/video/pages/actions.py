"""What can be done with a job: another constraint, another policy, its end. By plain forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import Problems
from app.kit.web.http import is_fragment
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import TemplateContext, render
from app.video.access import video_of
from app.video.pages import view_models
from app.video.pages.job import body_of, control_values, job_of
from app.video.pages.job_list import url_of
from app.video.pages.new_form import constraint_of
from app.video.scheduling.registry import policies

MAX_BYTES = 10_000


@with_fields(MAX_BYTES, "A constraint")
def constrain(request: Request, sent: dict[str, str]) -> Response:
    uid = request.path_params["uid"]
    constraint, problems = constraint_of(sent)

    def change() -> None:
        video_of(request).jobs.constrain(user_of(request), uid, constraint, now=now())

    return _answer_change(request, sent, "constrained", change, problems, "delay_hi")


@with_fields(MAX_BYTES, "A policy")
def choose(request: Request, sent: dict[str, str]) -> Response:
    uid, policy = request.path_params["uid"], sent.get("policy", "").strip()

    def change() -> None:
        video_of(request).jobs.choose(user_of(request), uid, policy, now=now())

    return _answer_change(request, sent, "chosen", change, {}, "policy")


@with_fields(MAX_BYTES, "A name")
def rename(request: Request, sent: dict[str, str]) -> Response:
    uid, name = request.path_params["uid"], sent.get("name", "")

    def change() -> None:
        video_of(request).jobs.rename(user_of(request), uid, name)

    return _answer_change(request, sent, "renamed", change, {}, "name")


def _answer_change(
    request: Request, sent: Mapping[str, str], note: str, change: Callable[[], None], problems: Problems, field: str
) -> Response:
    """To the page, or for htmx the forms again. Nothing typed is lost, in the other form neither."""
    status = 422 if problems else 200
    if not problems:
        try:
            change()
        except NotFound:
            raise
        except ModelmillError as error:
            problems, status = {field: error}, error.status
    if not problems and not is_fragment(request):
        return see_other(url_of(request.path_params["uid"], f"?note={note}"))
    job = job_of(request)
    values = control_values(view_models.view_of(job))
    values |= {name: sent[name] for name in values if name in sent}
    context: TemplateContext = {"values": values, "problems": problems, "saved": "" if problems else note}
    if is_fragment(request):
        return render(
            request,
            "video/_controls.html",
            job=job,
            view=view_models.view_of(job),
            url=url_of(job.uid),
            policies=policies(),
            **context,
        )
    return render(
        request,
        "video/job.html",
        status,
        area="video",
        note="",
        dag_text="",
        **{**body_of(request, job, now()), **context},
    )


def ask_cancel(request: Request) -> Response:
    return _render_question(request, "video/cancel.html")


def cancel(request: Request) -> Response:
    uid = request.path_params["uid"]
    video_of(request).jobs.cancel(user_of(request), uid, now=now())
    return see_other(url_of(uid, "?note=cancelled"))


def ask_delete(request: Request) -> Response:
    return _render_question(request, "video/delete.html")


def delete(request: Request) -> Response:
    try:
        video_of(request).jobs.delete(user_of(request), request.path_params["uid"])
    except NotFound:
        raise
    except ModelmillError as error:
        return _render_question(request, "video/delete.html", error)
    return see_other("/ui/video?note=deleted")


def _render_question(request: Request, template: str, error: ModelmillError | None = None) -> Response:
    job = job_of(request)
    context: TemplateContext = {"view": view_models.view_of(job), "job": job, "url": url_of(job.uid), "error": error}
    return render(request, template, area="video", **context)


ROUTES = [
    Route("/ui/video/{uid}/constraint", constrain, methods=["POST"]),
    Route("/ui/video/{uid}/name", rename, methods=["POST"]),
    Route("/ui/video/{uid}/policy", choose, methods=["POST"]),
    Route("/ui/video/{uid}/cancel", ask_cancel),
    Route("/ui/video/{uid}/cancel", cancel, methods=["POST"]),
    Route("/ui/video/{uid}/delete", ask_delete),
    Route("/ui/video/{uid}/delete", delete, methods=["POST"]),
]
