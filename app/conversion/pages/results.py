"""What remains after a reset: the page of stored results, and the page of an unknown job, with a way to go on."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion import object_keys
from app.conversion.access import archive_of, conversion_of
from app.conversion.errors import NotArchived, ResultNotFound, TooManyJobs
from app.conversion.pages import view_models
from app.conversion.pages.form_problems import problem_of
from app.conversion.service.results import StoredArtifact
from app.conversion.service.submissions import Submission
from app.conversion.store import job_not_found
from app.kit.clock import from_text, now
from app.kit.errors import ModelmillError
from app.kit.objects import ObjectMissing
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query, retry_after
from app.kit.web.idempotency import form_once
from app.kit.web.templates import TemplateContext, render
from app.settings import settings_of

PAGE_RESULTS = 12
NEWS_FOR = timedelta(days=1)
"""How long the list of jobs mentions a reset; the link to the stored results remains as long as these do."""


class PageQuery(BaseModel):
    cursor: Annotated[str, Field(pattern=f"^{object_keys.UUID}$")] | None = None


def results(request: Request) -> Response:
    """Renders the list of stored results."""
    params, ttl_s = query(request, PageQuery), settings_of(request).record_ttl_s
    jobs, older = conversion_of(request).results.page(user_of(request), limit=PAGE_RESULTS, after=params.cursor)
    rows = [(job, *view_models.split_artifacts(job.files)) for job in jobs]
    return render(
        request,
        "conversion/results.html",
        area="jobs",
        stored_jobs=rows,
        older=older,
        is_first=params.cursor is None,
        kept_s=ttl_s,
    )


def reset_view(request: Request) -> TemplateContext:
    """Returns what the list of jobs shows about the last reset.

    `forgotten` is the number of jobs that it ended and whose files are stored; 0 while the object store is unreachable.
    """
    conversion, began = conversion_of(request), conversion_of(request).jobs.store.began_at()
    forgotten = 0
    with suppress(ModelmillError):
        forgotten = len(conversion.results.forgotten(user_of(request)))
    is_news = forgotten > 0 and now() - from_text(began) < NEWS_FOR
    return {"forgotten": forgotten, "is_reset_news": is_news, "began": began}


def render_gone(request: Request, refused: TooManyJobs | None = None) -> Response:
    """Renders a helpful 404: the inputs usually outlive the record, and then one click submits them again.

    Args:
        refused: why that click could not be carried out yet.
    """
    job_id = request.path_params["job_id"]
    outputs, others = view_models.split_artifacts(_list_stored(request, job_id))
    response = render(
        request,
        "conversion/gone.html",
        refused.status if refused else 404,
        area="jobs",
        job_id=job_id,
        is_archived=_is_archived(request, job_id),
        remembered=_recall_submission(request, job_id),
        made=outputs,
        others=others,
        problem=problem_of(refused) if refused else None,
    )
    response.headers.update(retry_after(refused) if refused else {})
    return response


async def resubmit(request: Request) -> Response:
    """Submits the inputs of this job again, as a new job."""
    job_id = request.path_params["job_id"]
    submission = await run_in_threadpool(_recall_submission, request, job_id)
    if submission is None:
        raise job_not_found(job_id)
    try:
        record = await run_in_threadpool(conversion_of(request).submissions.submit, submission)
    except TooManyJobs as error:
        return await run_in_threadpool(render_gone, request, error)
    return see_other(f"/ui/jobs/{record.job_id}?note=resubmitted")


def _list_stored(request: Request, job_id: str) -> tuple[StoredArtifact, ...]:
    try:
        return conversion_of(request).results.get(job_id, user_of(request)).files
    except ResultNotFound:
        return ()


def _is_archived(request: Request, job_id: str) -> bool:
    try:
        archive_of(request).get(job_id, user_of(request))
    except NotArchived:
        return False
    return True


def _recall_submission(request: Request, job_id: str) -> Submission | None:
    if not object_keys.is_uuid4(job_id):
        return None
    try:
        return conversion_of(request).submissions.remembered(job_id, user_of(request))
    except ObjectMissing:
        return None


ROUTES = [
    Route("/ui/results", results),
    Route("/ui/jobs/{job_id}/resubmit", form_once(resubmit), methods=["POST"]),
]
