"""The page of a job on which it leaves: its pack, pushes to registries and hubs, what devices reported."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import find_known_job
from app.exchange.access import exchange_of, packs_of
from app.exchange.errors import TransferNotFound
from app.exchange.schemas import ModelName, Place
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import FilterForm, query
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render


class ExportsQuery(FilterForm):
    transfer: Annotated[str, Field(max_length=36)] = ""


class PushForm(BaseModel):
    target: Place
    registered_model: ModelName = ""


def exports(request: Request) -> Response:
    return _render_page(request, query(request, ExportsQuery).transfer)


@with_form(PushForm)
def push(request: Request, fields: PushForm) -> Response:
    """Requests a push. If it is refused, the form shows what was typed, and why."""
    job_id, exchange, user = request.path_params["job_id"], exchange_of(request), user_of(request)
    try:
        transfer = exchange.push(user, job_id, fields.target, registered_model=fields.registered_model, now=now())
    except ModelmillError as error:
        if error.status in (404, 503):
            raise
        return _render_page(request, "", fields, error)
    return see_other(f"/ui/jobs/{job_id}/exports?{urlencode({'transfer': transfer.transfer_id})}")


def _render_page(
    request: Request, transfer_id: str, fields: PushForm | None = None, error: ModelmillError | None = None
) -> Response:
    job_id, user = request.path_params["job_id"], user_of(request)
    job, area = find_known_job(request, job_id)
    transfer = None
    if transfer_id:
        try:
            transfer = exchange_of(request).get(user, transfer_id)
        except TransferNotFound:
            transfer = None  # the transfer is forgotten: show the page without it
    return render(
        request,
        "exchange/exports.html",
        area=area,
        job=job,
        results=packs_of(request).device_results.of(user, job_id),
        transfer=transfer,
        fields=fields,
        error=error,
        status_code=422 if error else 200,
    )


ROUTES = [
    Route("/ui/jobs/{job_id}/exports", exports),
    Route("/ui/jobs/{job_id}/exports", form_once(push), methods=["POST"]),
]
