"""Job sets: the list with a form that adds one, and one with its jobs."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.text.labels import labels_in, text_of
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.job_endpoints import dag_of_stages
from app.video.job_set_endpoints import answer_of_set
from app.video.model.job import RestartPolicy
from app.video.service import Submission

PAGE = "/ui/video/sets"
FIELDS = ("name", "labels", "stages", "video")
MAX_BYTES = 20_000


def job_sets(request: Request) -> Response:
    return _render_page(request, dict.fromkeys(FIELDS, ""))


@with_fields(MAX_BYTES, "A job set")
def create(request: Request, sent: dict[str, str]) -> Response:
    values = {name: sent.get(name, "").strip() for name in FIELDS}
    video, user = video_of(request), user_of(request)
    stages = [name.strip() for name in values["stages"].split(",") if name.strip()]
    try:
        dag = dag_of_stages(video.catalogue, user, stages)
        submission = Submission("", values["video"], dag, restart_policy=RestartPolicy.ALWAYS, name=values["name"])
        made = video.sets.create(user, labels_in(values["labels"]), submission, now=now())
    except ModelmillError as error:
        return _render_page(request, values, error)
    return see_other(f"{PAGE}/{made.set_id}")


def job_set(request: Request) -> Response:
    one, jobs = video_of(request).sets.get(user_of(request), request.path_params["set_id"])
    shown = answer_of_set(one, jobs)
    return render(request, "video/job_set.html", area="video", job_set=shown, selector=text_of(one.selector))


def delete(request: Request) -> Response:
    video_of(request).sets.delete(user_of(request), request.path_params["set_id"], now=now())
    return see_other(PAGE)


def _render_page(request: Request, values: Mapping[str, str], error: ModelmillError | None = None) -> Response:
    video, user = video_of(request), user_of(request)
    sets = [(answer_of_set(one, jobs), text_of(one.selector)) for one, jobs in video.sets.all(user)]
    return render(
        request,
        "video/job_sets.html",
        area="video",
        sets=sets,
        values=values,
        error=error,
        stages=sorted(video.catalogue.names_seen_by(user)),
    )


ROUTES = [
    Route(PAGE, job_sets),
    Route(PAGE, form_once(create), methods=["POST"]),
    Route(PAGE + "/{set_id}", job_set),
    Route(PAGE + "/{set_id}/delete", delete, methods=["POST"]),
]
