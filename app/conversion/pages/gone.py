"""The page of a job that is not (or no longer) known: what happened, and a way on."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion import object_keys
from app.conversion.access import conversion_of
from app.conversion.errors import ResultNotFound, TooManyJobs
from app.conversion.pages import view_models
from app.conversion.pages.new_texts import problem_of
from app.conversion.service.results import StoredFile
from app.conversion.service.submissions import Submission
from app.conversion.store import job_not_found
from app.kit.objects import ObjectMissing
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import retry_after
from app.kit.web.templates import render


def gone_page(request: Request, refused: TooManyJobs | None = None) -> Response:
    """404, but a helpful one: the inputs usually outlive the record, then one click submits them again.

    refused: why that click could not be obeyed yet.
    """
    job_id = request.path_params["job_id"]
    made, others = view_models.stored(_stored(request, job_id))
    response = render(
        request,
        "conversion/gone.html",
        refused.status if refused else 404,
        area="jobs",
        job_id=job_id,
        remembered=_remembered(request, job_id),
        made=made,
        others=others,
        problem=problem_of(refused) if refused else None,
    )
    response.headers.update(retry_after(refused) if refused else {})
    return response


async def resubmit(request: Request) -> Response:
    """Submit what was once submitted as this job; a new job results."""
    job_id = request.path_params["job_id"]
    asked = await run_in_threadpool(_remembered, request, job_id)
    if asked is None:
        raise job_not_found(job_id)
    try:
        record = await run_in_threadpool(conversion_of(request).submissions.submit, asked)
    except TooManyJobs as error:
        return await run_in_threadpool(gone_page, request, error)
    return see_other(f"/ui/jobs/{record.job_id}?note=resubmitted")


def _stored(request: Request, job_id: str) -> tuple[StoredFile, ...]:
    try:
        return conversion_of(request).results.get(job_id, user_of(request)).files
    except ResultNotFound:
        return ()


def _remembered(request: Request, job_id: str) -> Submission | None:
    if not object_keys.is_uuid4(job_id):
        return None
    try:
        return conversion_of(request).submissions.remembered(job_id, user_of(request))
    except ObjectMissing:
        return None


ROUTES = [Route("/ui/jobs/{job_id}/resubmit", resubmit, methods=["POST"])]
