"""The list of jobs: filter, page, and what is done to several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.errors import JobFinished, JobNotFound
from app.conversion.model import JobRecord, Status
from app.conversion.options import Chip, ToolchainName
from app.conversion.pages import view_models
from app.conversion.pages.compare import LETTERS, compare_url
from app.conversion.pages.results import reset_view
from app.conversion.schemas import CURSOR
from app.conversion.service import Conversion
from app.conversion.store import JobFilter
from app.kit.errors import BadRequest
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import FilterForm, form, query
from app.kit.web.templates import render
from app.settings import settings_of

PAGE_JOBS = 50
MAX_READ = 2000
"""Records that one search looks at; then it offers to search on. A page is answered, however rare its matches."""


class ListQuery(FilterForm):
    status: Status | None = None
    toolchain: ToolchainName | None = None
    platform: Chip | None = None
    owner: Annotated[str, Field(max_length=200)] | None = None
    q: Annotated[str, Field(max_length=200)] | None = None
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    note: Literal["cancelled", "deleted", "restarted"] | None = None
    count: Annotated[int, Field(ge=0)] = 1

    @property
    def is_filtered(self) -> bool:
        return any((self.status, self.toolchain, self.platform, self.owner, self.q))

    def url(self, cursor: str | None) -> str:
        filters = self.model_dump(
            mode="json", include={"status", "toolchain", "platform", "owner", "q"}, exclude_none=True
        )
        return "/ui/jobs?" + urlencode({**filters, **({"cursor": cursor} if cursor else {})})


Several = Annotated[tuple[str, ...], BeforeValidator(lambda ids: (ids,) if isinstance(ids, str) else ids)]


class Selection(BaseModel):
    """What was ticked, and what to do with it."""

    id: Annotated[Several, Field(max_length=500)] = ()
    action: Literal["compare", "cancel", "delete"]
    confirmed: bool = False


def jobs(request: Request) -> Response:
    params = query(request, ListQuery)
    job_filter = JobFilter(
        status=params.status, toolchain=params.toolchain, platform=params.platform, owner=params.owner, text=params.q
    )
    conversion = conversion_of(request)
    records, older = conversion.jobs.page(
        job_filter, user_of(request), limit=PAGE_JOBS, cursor=params.cursor, max_read=MAX_READ
    )
    return render(
        request,
        "conversion/jobs.html",
        area="jobs",
        asked=params,
        older=older,
        **_rows(conversion, records),
        **reset_view(request),
        statuses=list(Status),
        toolchains=settings_of(request).toolchains,
        chips=list(Chip),
    )


def live(request: Request) -> Response:
    """The cells of those rows that were not finished, and which of them to ask for again. After a reset the
    page is loaded anew."""
    conversion = conversion_of(request)
    began = conversion.jobs.store.began_at()
    if (
        request.query_params.get("began", began) != began
    ):  # the rows of the open page are of jobs that there are no more
        return Response(headers={"HX-Redirect": "/ui/jobs?note=restarted"})
    ids = request.query_params.get("ids", "").split(",")[:PAGE_JOBS]
    rows = _rows(conversion, conversion.jobs.several(ids, user_of(request)))
    return render(request, "conversion/_jobs_live.html", **rows, began=began)


def _rows(conversion: Conversion, records: Sequence[JobRecord]) -> dict[str, Any]:
    return {
        "jobs": records,
        "active": [job.job_id for job in records if not job.is_terminal],
        "ahead": {job.job_id: conversion.jobs.queue_position(job) for job in records if not job.is_terminal},
        "took": {job.job_id: view_models.took_s(job) for job in records},
    }


async def selected(request: Request) -> Response:
    """Compare goes to its page; cancel and delete ask first, on a page of their own."""
    selection = await form(request, Selection)
    if selection.action == "compare":
        return _compare(selection.id)
    conversion, user = conversion_of(request), user_of(request)
    records = await run_in_threadpool(conversion.jobs.several, selection.id, user)
    fitting = [job for job in records if job.is_terminal is (selection.action == "delete")]
    if not selection.confirmed:
        return render(
            request,
            "conversion/confirm.html",
            area="jobs",
            action=selection.action,
            jobs=fitting,
            left_out=len(selection.id) - len(fitting),
        )
    count = await run_in_threadpool(_each, conversion, user, selection.action, fitting)
    done = "deleted" if selection.action == "delete" else "cancelled"
    return see_other(f"/ui/jobs?note={done}&count={count}")


def _compare(ids: Sequence[str]) -> Response:
    if not 2 <= len(ids) <= len(LETTERS):
        raise BadRequest("Two to eight jobs can be compared.", hint="Go back and tick two to eight jobs.")
    return see_other(compare_url(ids))


def _each(conversion: Conversion, user: str, action: str, records: Sequence[JobRecord]) -> int:
    """How many it was done to; one that ended or vanished meanwhile is left alone."""
    count = 0
    for job in records:
        try:
            if action == "delete":
                conversion.jobs.delete(job.job_id, user)
            else:
                conversion.jobs.cancel(job.job_id, user)
        except (JobFinished, JobNotFound):
            continue
        count += 1
    return count


ROUTES = [
    Route("/ui/jobs", jobs),
    Route("/ui/jobs/live", live),
    Route("/ui/jobs/selected", selected, methods=["POST"]),
]
