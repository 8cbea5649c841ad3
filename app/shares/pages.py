"""The page that a link leads to, and the page of a job's links."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import find_known_job
from app.conversion.pages import view_models
from app.kit.clock import now
from app.kit.errors import BadInput
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render
from app.shares.access import shares_of
from app.shares.api import SHARED, build_shared_url
from app.shares.errors import ShareNotFound
from app.shares.schemas import Days, KeyQuery, Label
from app.shares.service import list_shared_files

PAGE = "/ui/jobs/{job_id}/shares"


class ShareForm(BaseModel):
    days: Days = 7
    label: Label = ""


def shared(request: Request) -> Response:
    """Renders the job, its figures and its files for holders of the link."""
    try:
        key = query(request, KeyQuery).key
        share, record = shares_of(request).open(request.path_params["share_id"], key, now=now())
    except (ShareNotFound, BadInput):
        return render(request, "shares/gone.html", 404)
    files = view_models.files(list_shared_files(record))
    response = render(request, "shares/shared.html", share=share, job=record, files=files, key=key)
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def shares(request: Request) -> Response:
    return _render_page(request)


@with_form(ShareForm)
def add(request: Request, fields: ShareForm) -> Response:
    """Creates a link. The response is the only page that ever shows it."""
    job_id, user = request.path_params["job_id"], user_of(request)
    share, key = shares_of(request).add(job_id, user, days=fields.days, label=fields.label, now=now())
    return _render_page(request, build_shared_url(request, share.share_id, key))


def revoke(request: Request) -> Response:
    job_id = request.path_params["job_id"]
    shares_of(request).revoke(job_id, user_of(request), request.path_params["share_id"], now=now())
    return see_other(f"/ui/jobs/{job_id}/shares?note=revoked")


def _render_page(request: Request, url: str = "") -> Response:
    job_id, user = request.path_params["job_id"], user_of(request)
    job, area = find_known_job(request, job_id)
    return render(
        request,
        "shares/shares.html",
        area=area,
        job=job,
        shares=shares_of(request).of_job(job_id, user),
        url=url,
        note=request.query_params.get("note", ""),
    )


ROUTES = [
    Route("/ui" + SHARED + "/{share_id}", shared),
    Route(PAGE, shares),
    Route(PAGE, form_once(add), methods=["POST"]),
    Route(PAGE + "/{share_id}/revoke", revoke, methods=["POST"]),
]
